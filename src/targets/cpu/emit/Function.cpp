#include "targets/cpu/emit/Function.h"

#include "targets/cpu/dot/Dot.h"
#include "targets/cpu/emit/Control.h"
#include "targets/cpu/emit/Kernel.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace nereid::cpu {

namespace {

// The arguments of the native function, in the order of KernelFn.
enum { ArgsPointer, InfoPointer, Begin, End, Scratch };

// Which of the grid's axes the kernel asks for.
struct GridUse {
  bool id[3] = {};
  explicit GridUse(Operation *root) {
    root->walk([&](Operation *op) {
      if (auto program = dyn_cast<tile::ProgramIdOp>(op))
        id[program.getAxis()] = true;
    });
  }
};

} // namespace

llvm::Expected<LoopKernel> emitKernel(func::FuncOp kernel, const Features &features,
                                      explain::Report *explanation,
                                      const targets::SourceLines &sourceLine) {
  MLIRContext *context = kernel.getContext();
  if (!llvm::hasSingleElement(kernel.getBody()))
    return llvm::createStringError("internal error: a kernel must be one block");
  Location loc = kernel.getLoc();
  LoopKernel result;
  result.module = ModuleOp::create(loc);
  OpBuilder b(context);
  b.setInsertionPointToEnd(result.module->getBody());
  auto pointer = LLVM::LLVMPointerType::get(context);
  Type i64 = b.getI64Type(), i32 = b.getI32Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                          {pointer, pointer, i64, i64, pointer});
  auto function = LLVM::LLVMFuncOp::create(b, loc, kernel.getName(), type);
  function.setArgAttr(Scratch, LLVM::LLVMDialect::getNoAliasAttrName(), b.getUnitAttr());
  function.setArgAttr(Scratch, LLVM::LLVMDialect::getAlignAttrName(), b.getI64IntegerAttr(64));
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);

  Kernel k(b, loc, features);
  k.explanation = explanation;
  k.sourceLine = sourceLine;
  countDots(k, kernel);
  if (k.usesTiles)
    emitTileSetup(b, loc, *result.module);
  Emit &e = k.e;
  e.constantBlock = entry;
  k.info = entry->getArgument(InfoPointer);
  k.scratch = entry->getArgument(Scratch);
  Block &body = kernel.getBody().front();
  for (auto [i, argument] : llvm::enumerate(body.getArguments())) {
    Value slot = e.advance(entry->getArgument(ArgsPointer), int64_t(8 * i));
    Value value = e.load(argument.getType(), slot, 1);
    k.scalars[argument] = value;
    if (auto divisibility = kernel.getArgAttrOfType<IntegerAttr>(i, "tile.divisibility"))
      if (divisibility.getInt() > 0)
        k.argumentZeros[value] = llvm::countr_zero(uint64_t(divisibility.getInt()));
  }
  for (int axis = 0; axis < 3; ++axis)
    k.gridSizes[axis] = e.load(i32, e.advance(k.info, 4 * axis), 1);

  // The loop over programs counts their coordinates along, rather than dividing for each.
  GridUse use(kernel);
  Value begin = entry->getArgument(Begin), end = entry->getArgument(End);
  bool flat = !use.id[1] && !use.id[2];
  SmallVector<Value> first;
  Value wide[3];
  for (int axis = 0; axis < 3; ++axis)
    wide[axis] = arith::ExtSIOp::create(b, loc, i64, k.gridSizes[axis]);
  if (use.id[0] || !flat) {
    Value x = arith::RemUIOp::create(b, loc, begin, wide[0]);
    Value rest = arith::DivUIOp::create(b, loc, begin, wide[0]);
    Value y = arith::RemUIOp::create(b, loc, rest, wide[1]);
    Value z = arith::DivUIOp::create(b, loc, rest, wide[1]);
    for (Value coordinate : {x, y, z})
      first.push_back(arith::TruncIOp::create(b, loc, i32, coordinate));
  }
  auto loop = scf::ForOp::create(b, loc, begin, end, e.i64(1), first);
  k.entryAnchor = loop;
  if (k.usesTiles)
    emitTileRelease(b, loc);
  LLVM::ReturnOp::create(b, loc, ValueRange());
  if (first.empty())
    b.setInsertionPoint(loop.getBody()->getTerminator());
  else
    b.setInsertionPointToStart(loop.getBody());
  k.program = loop.getInductionVar();
  Value zero = e.integer(i32, 0), one = e.integer(i32, 1);
  for (int axis = 0; axis < 3; ++axis)
    k.programIds[axis] = first.empty() ? zero : loop.getRegionIterArgs()[axis];

  k.emitBlock(body);

  if (!first.empty()) {
    auto step = [&](Value value, Value size, Value carry, Value &carryOut) -> Value {
      Value next = arith::AddIOp::create(b, loc, value, carry);
      Value wraps = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, next, size);
      carryOut = arith::ExtUIOp::create(b, loc, i32, wraps);
      return arith::SelectOp::create(b, loc, wraps, zero, next);
    };
    Value carry = one;
    Value x = step(k.programIds[0], k.gridSizes[0], carry, carry);
    Value y = step(k.programIds[1], k.gridSizes[1], carry, carry);
    Value z = arith::AddIOp::create(b, loc, k.programIds[2], carry);
    scf::YieldOp::create(b, loc, ValueRange{x, y, z});
  }
  if (!k.error.empty())
    return llvm::createStringError(k.error);
  result.sites = std::move(k.sites);
  result.scratchBytes = k.scratchBytes;
  if (k.scratchBytes)
    function.setArgAttr(Scratch, LLVM::LLVMDialect::getDereferenceableAttrName(),
                        b.getI64IntegerAttr(int64_t(k.scratchBytes)));
  result.independent = !k.needsOrder;
  result.usesTiles = k.usesTiles;
  result.missesTiles = k.missesTiles;
  return result;
}

} // namespace nereid::cpu
