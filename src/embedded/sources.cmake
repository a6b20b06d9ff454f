# What libnereid_embedded.a is made of, in every build that makes one. SOURCE: the folder `src`.
set(device_sources cpu_features.cpp device.cpp driver.cpp status.cpp)
list(TRANSFORM device_sources PREPEND ${SOURCE}/embedded/)
set(cpu ${SOURCE}/targets/cpu)
set(embedded_sources ${device_sources} ${SOURCE}/embedded/cpu_launch.cpp ${SOURCE}/embedded/cuda_launch.cpp
  ${SOURCE}/embedded/launch.cpp ${cpu}/executor/Executor.cpp ${cpu}/executor/ThreadCount.cpp
  ${cpu}/support_library/DeviceLibrary.cpp ${cpu}/support_library/Print.cpp)
