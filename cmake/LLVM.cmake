# Finds LLVM/MLIR, and gives `nereid_use_mlir(target)` and the interface target `nereid_llvm`.
find_package(MLIR REQUIRED CONFIG NO_DEFAULT_PATH
             PATHS /usr/lib/llvm-${NEREID_LLVM_VERSION}/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

add_library(nereid_llvm_headers INTERFACE)
target_include_directories(nereid_llvm_headers SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
separate_arguments(NEREID_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_definitions(nereid_llvm_headers INTERFACE ${NEREID_LLVM_DEFINITIONS})

set(NEREID_MLIR_LIBS
  MLIRArithDialect MLIRArithToLLVM MLIRArithTransforms MLIRArithAttrToLLVMConversion
  MLIRArithValueBoundsOpInterfaceImpl
  MLIRControlFlowDialect MLIRControlFlowToLLVM MLIRFuncDialect MLIRFuncToLLVM MLIRFuncInlinerExtension
  MLIRMathDialect MLIRMathTransforms MLIRMathToLLVM MLIRSCFDialect MLIRSCFToControlFlow MLIRSCFTransforms
  MLIRSCFUtils MLIRUBDialect MLIRUBToLLVM MLIRVectorDialect MLIRVectorToLLVM MLIRVectorTransforms
  MLIRVectorToLLVMPass MLIRMemRefDialect MLIRLLVMDialect MLIRNVVMDialect MLIRDLTIDialect
  MLIRIndexDialect MLIRIndexToLLVM MLIRInferIntRangeCommon MLIRInferIntRangeInterface
  MLIRAnalysis MLIRTransforms MLIRTransformUtils MLIRReconcileUnrealizedCasts
  MLIRParser MLIRPass MLIRIR MLIRSupport MLIRDebug MLIROptLib MLIRRewrite MLIRLoopLikeInterface
  MLIRLLVMCommonConversion MLIRLLVMToLLVMIRTranslation MLIRBuiltinToLLVMIRTranslation
  MLIRNVVMToLLVMIRTranslation MLIRTargetLLVMIRExport MLIRLLVMIRTransforms MLIRBytecodeWriter)
set(NEREID_LLVM_COMPONENTS
  Core Support Analysis CodeGen Target TargetParser MC Passes
  ipo InstCombine ScalarOpts TransformUtils Vectorize Linker IRReader BitReader BitWriter AsmPrinter SelectionDAG
  X86CodeGen X86Desc X86Info X86AsmParser X86Disassembler AArch64CodeGen AArch64Desc AArch64Info AArch64AsmParser
  NVPTXCodeGen NVPTXDesc NVPTXInfo)
# What a process needs that finds its kernels on disk.
set(NEREID_LLVM_SMALL JITLink OrcTargetProcess OrcShared TargetParser Support)

# nereid_llvm_jit: for tests that run what emitters emit.
foreach(llvm nereid_llvm nereid_llvm_small nereid_llvm_jit)
  add_library(${llvm} INTERFACE)
  target_link_libraries(${llvm} INTERFACE nereid_llvm_headers)
endforeach()
target_link_libraries(nereid_llvm INTERFACE nereid_llvm_small)
if(NEREID_STATIC_LLVM)
  # The exported targets name the shared LLVM too; beside the archives its options would register twice.
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target ${targets})
    if(target MATCHES "^(MLIR|mlir|LLVM)")
      get_target_property(deps ${target} INTERFACE_LINK_LIBRARIES)
      if(deps)
        list(REMOVE_ITEM deps LLVM "$<LINK_ONLY:LLVM>")
        # Not every system has libzstd; its archive is small.
        list(TRANSFORM deps REPLACE "^zstd::libzstd_shared$" "zstd::libzstd_static")
        set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${deps}")
      endif()
    endif()
  endforeach()
  list(TRANSFORM NEREID_LLVM_COMPONENTS PREPEND LLVM OUTPUT_VARIABLE NEREID_LLVM_LIBS)
  list(TRANSFORM NEREID_LLVM_SMALL PREPEND LLVM)
  target_link_libraries(nereid_llvm_small INTERFACE ${NEREID_LLVM_SMALL})
  target_link_libraries(nereid_llvm INTERFACE ${NEREID_MLIR_LIBS} ${NEREID_LLVM_LIBS})
  target_link_libraries(nereid_llvm_jit INTERFACE LLVMOrcJIT)
else()
  target_link_libraries(nereid_llvm INTERFACE MLIR LLVM)
  target_link_libraries(nereid_llvm_small INTERFACE LLVM)
  target_link_libraries(nereid_llvm_jit INTERFACE LLVM)
endif()

# nereid_use_mlir(TARGET [ONLY libs] [PRECOMPILED carrier]): which of LLVM's libraries it is linked with, and which precompiled header it has.
function(nereid_use_mlir target)
  cmake_parse_arguments(ARG "" "ONLY;PRECOMPILED" "" ${ARGN})
  if(NOT ARG_ONLY)
    set(ARG_ONLY nereid_llvm)
  endif()
  if(NOT ARG_PRECOMPILED)
    set(ARG_PRECOMPILED nereid_pch)
  endif()
  target_link_libraries(${target} PUBLIC ${ARG_ONLY})
  nereid_use_precompiled(${target} ${ARG_PRECOMPILED})
endfunction()
