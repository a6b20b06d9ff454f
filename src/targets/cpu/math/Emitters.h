// The functions behind the table of Math.cpp. Each takes lanes of one float type.
#pragma once
#include "targets/cpu/LaneBuilder.h"

#include "llvm/ADT/ArrayRef.h"

namespace nereid::cpu {

// SinglePrecision.cpp
Lane expF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane exp2F32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane expm1F32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane logF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane log2F32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane log1pF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane erfF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane tanhF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane sigmoidF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane powF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
// SinCosF32.cpp
Lane sinF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane cosF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
// DoublePrecision.cpp
Lane expF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane exp2F64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane logF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane log2F64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane sinF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane cosF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);

// Whether any lane of `condition` (i1) holds, as one i1.
mlir::Value anyLane(const LaneBuilder &l, Lane condition);
// f32 lanes as the nearest i32; beyond its range any number.
Lane nearestInteger(const LaneBuilder &l, Lane x);
// Declares the C library's `name` in the module around the insertion point, unless it is there.
// Separate from the call, which may stand in a region not yet attached to the module.
void declareLibm(const LaneBuilder &l, llvm::StringRef name, mlir::Type element, unsigned operands);
// Calls it once a lane.
Lane callLibm(const LaneBuilder &l, llvm::StringRef name, llvm::ArrayRef<Lane> operands);

} // namespace nereid::cpu
