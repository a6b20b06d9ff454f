// The passes over tile IR, in alphabetical order. Each is one .cpp of the same name, which says why it exists,
// and has one test of the same name in tests/ir/transforms. Pipeline.cpp says where each runs.
#ifndef NEREID_TRANSFORMS_PASSES
#define NEREID_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def CheckAccesses : Pass<"check-accesses"> {
  let summary = "checked mode: tests every access against the extent of the argument it came from";
}

def ChooseTensorCopies : Pass<"choose-tensor-copies"> {
  let summary = "marks the tensor descriptors that a copy engine can serve";
}

def Combine : Pass<"combine"> {
  let summary = "canonicalises and combines: splats computed as scalars, dot with its sum, uniform offsets first";
}

def DescriptorsToPointers : Pass<"descriptors-to-pointers"> {
  let summary = "tensor descriptors become pointers with sizes and strides, their accesses masked loads and stores";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::ub::UBDialect", "::nereid::tile::TileDialect"];
}

def HoistInvariants : Pass<"hoist-invariants"> {
  let summary = "moves computations and safe loads that do not change out of loops";
}

def PointersToDescriptors : Pass<"pointers-to-descriptors"> {
  let summary = "loads of blocks through pointers that feed products get a version through a descriptor";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect", "::nereid::tile::TileDialect"];
}

def SimplifyLoops : Pass<"simplify-loops"> {
  let summary = "carries scalars instead of tensors that a loop advances uniformly, and no dead values";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::nereid::tile::TileDialect"];
}

def UnmarkNoinline : Pass<"unmark-noinline"> {
  let summary = "functions that need more of their caller than arguments are inlined, `noinline` or not";
  let options = [Option<"keep", "keep", "std::string", /*default=*/"\"scalars\"",
                        "`scalars`: functions that need their arguments alone; `none`">];
}

def WidenOffsets : Pass<"widen-offsets", "::mlir::func::FuncOp"> {
  let summary = "offsets into large tensors are computed in 64 bits";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::nereid::tile::TileDialect"];
}

#endif // NEREID_TRANSFORMS_PASSES
