# What libnereid_embedded.a is made of, in every build that makes one. SOURCE: the folder `src`.
set(device_sources cpu_features.cpp device.cpp driver.cpp status.cpp)
list(TRANSFORM device_sources PREPEND ${SOURCE}/embedded/)
set(cpu ${SOURCE}/targets/cpu)
set(embedded_sources ${device_sources} ${SOURCE}/embedded/cpu_launch.cpp ${SOURCE}/embedded/cuda_launch.cpp
  ${SOURCE}/embedded/launch.cpp ${cpu}/executor/Executor.cpp ${cpu}/executor/Pool.cpp
  ${cpu}/executor/ThreadCount.cpp ${cpu}/executor/Tiles.cpp
  ${cpu}/support_library/DeviceLibrary.cpp ${cpu}/support_library/Print.cpp)
# No exception leaves a function of the library, and locks are released on its way (guard.h).
set(throwing_sources device.cpp driver.cpp status.cpp cpu_launch.cpp cuda_launch.cpp launch.cpp)
list(TRANSFORM throwing_sources PREPEND ${SOURCE}/embedded/)
set_source_files_properties(${throwing_sources} PROPERTIES COMPILE_OPTIONS -fexceptions)
