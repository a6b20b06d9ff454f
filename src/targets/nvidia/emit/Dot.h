// What the emitters of dots on matrix units share.
#pragma once
#include "gpu/emit/DotOperands.h"
#include "targets/nvidia/emit/Emitter.h"
#include "targets/nvidia/emit/WgmmaDescriptor.h"

namespace nereid::nvidia {

using gpu::RegisterMap;

/// The values of `elements` (together 32 bits, first lowest) as one i32.
llvm::Value *packWord(Emitter &e, llvm::ArrayRef<llvm::Value *> elements);

/// The name of an element type in matrix instructions; tf32 for f32. `isUnsigned`: of i8.
llvm::StringRef matrixType(mlir::Type element, bool isUnsigned = false);

/// Waits until at most `pending` groups of wgmma are in flight. `registers` pass through the wait:
/// what uses the result comes after it.
Values awaitProducts(Emitter &e, llvm::ArrayRef<llvm::Value *> registers, unsigned pending);

void emitMma(Emitter &e, ngpu::MmaOp op);
void emitWgmma(Emitter &e, ngpu::WgmmaOp op);
void emitWgmmaWait(Emitter &e, ngpu::WgmmaWaitOp op);

} // namespace nereid::nvidia
