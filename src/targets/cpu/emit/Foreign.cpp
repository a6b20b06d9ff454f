// Foreign code on elements: an author's x86 assembly, and functions of the language that run on
// single elements. Element after element (or `pack` of them) in row-major order; a last group that
// is not full repeats the last element.
#include "ir/tile/InlineAsm.h"
#include "targets/cpu/emit/Control.h"
#include "targets/cpu/emit/Loops.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace nereid::cpu {
namespace {

/// Calls `body` with the coordinates of `pack` elements at a time, and how many of them are no
/// repetitions.
void forEachGroup(Kernel &k, ArrayRef<int64_t> shape, unsigned pack,
                  function_ref<void(ArrayRef<SmallVector<Value>>, unsigned)> body) {
  if (pack == 1)
    return forEachPoint(k, shape, [&](ArrayRef<Value> indices) {
      body(SmallVector<Value>(indices.begin(), indices.end()), 1);
    });
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  auto coordinates = [&](Value flat) {
    SmallVector<Value> indices(shape.size());
    for (size_t dim = shape.size(); dim-- > 0;) {
      Value size = k.e.i64(shape[dim]);
      indices[dim] = k.b.createOrFold<arith::RemSIOp>(k.e.loc, flat, size);
      flat = k.b.createOrFold<arith::DivSIOp>(k.e.loc, flat, size);
    }
    return indices;
  };
  auto group = [&](Value first, unsigned valid) {
    SmallVector<SmallVector<Value>> places;
    for (unsigned i = 0; i < pack; ++i)
      places.push_back(coordinates(k.e.add(first, k.e.i64(std::min(i, valid - 1)))));
    body(places, valid);
  };
  int64_t full = count / pack * pack;
  if (full) {
    auto loop = scf::ForOp::create(k.b, k.e.loc, k.e.i64(0), k.e.i64(full), k.e.i64(pack));
    OpBuilder::InsertionGuard guard(k.b);
    k.b.setInsertionPoint(loop.getBody()->getTerminator());
    group(loop.getInductionVar(), pack);
  }
  if (full < count)
    group(k.e.i64(full), unsigned(count - full));
}

unsigned bitsOf(Type type) {
  return isa<LLVM::LLVMPointerType>(type) ? 64 : type.getIntOrFloatBitWidth();
}

/// Values side by side in an integer, the first in the lowest bits; narrow floats as their bits.
Value toRegister(Kernel &k, ArrayRef<Value> values) {
  Type type = values[0].getType();
  bool isNarrow = bitsOf(type) < 32;
  if (!isNarrow)
    return values[0];
  unsigned each = std::max(8u, bitsOf(type));
  Type bits = k.b.getIntegerType(bitsOf(type)), word = k.b.getI32Type();
  Value result;
  for (size_t i = 0; i < values.size(); ++i) {
    Value value = values[i];
    if (value.getType() != bits)
      value = arith::BitcastOp::create(k.b, k.e.loc, bits, value);
    value = arith::ExtUIOp::create(k.b, k.e.loc, word, value);
    if (i)
      value = arith::ShLIOp::create(k.b, k.e.loc, value, k.e.integer(word, int64_t(i * each)));
    result = result ? Value(arith::OrIOp::create(k.b, k.e.loc, result, value)) : value;
  }
  return result;
}

void fromRegister(Kernel &k, Value word, unsigned count, Type type, SmallVectorImpl<Value> &out) {
  if (bitsOf(type) >= 32)
    return out.push_back(word);
  unsigned bits = bitsOf(type), each = std::max(8u, bits);
  for (unsigned i = 0; i < count; ++i) {
    Value part = i ? Value(arith::ShRUIOp::create(k.b, k.e.loc, word,
                                                  k.e.integer(word.getType(), int64_t(i * each))))
                   : word;
    part = arith::TruncIOp::create(k.b, k.e.loc, k.b.getIntegerType(each), part);
    if (bits == 1)
      part = k.e.cmp(arith::CmpIPredicate::ne, part, k.e.integer(part.getType(), 0));
    else if (part.getType() != type)
      part = arith::BitcastOp::create(k.b, k.e.loc, type, part);
    out.push_back(part);
  }
}

/// One instance: `operands` holds `pack` values of each argument; as many of each result come back.
SmallVector<SmallVector<Value>> runAsm(Kernel &k, tile::InlineAsmOp op,
                                       ArrayRef<SmallVector<Value>> operands) {
  unsigned pack = op.getPack();
  SmallVector<Value> args;
  for (ArrayRef<Value> values : operands) {
    auto shared = tile::asmRegisters(bitsOf(values[0].getType()), pack);
    for (unsigned i = 0; i < pack; i += shared.perRegister)
      args.push_back(toRegister(k, values.slice(i, std::min(shared.perRegister, pack - i))));
  }
  SmallVector<Type> elements, types;
  for (Value result : op.getResult()) {
    Type element = k.e.lower(tile::elementOf(result.getType()));
    elements.push_back(element);
    types.append(tile::asmRegisters(bitsOf(element), pack).count,
                 bitsOf(element) < 32 ? Type(k.b.getI32Type()) : element);
  }
  MLIRContext *context = k.b.getContext();
  Type type = types.size() == 1 ? types[0] : Type(LLVM::LLVMStructType::getLiteral(context, types));
  Value words =
      LLVM::InlineAsmOp::create(
          k.b, k.e.loc, type, args, op.getAssembly(), op.getConstraints(),
          /*has_side_effects=*/!op.getPure(), /*is_align_stack=*/false, LLVM::TailCallKind::None,
          LLVM::AsmDialectAttr::get(context, LLVM::AsmDialect::AD_ATT), ArrayAttr())
          .getRes();
  SmallVector<SmallVector<Value>> results(elements.size());
  int64_t word = 0;
  for (auto [element, values] : llvm::zip(elements, results)) {
    auto shared = tile::asmRegisters(bitsOf(element), pack);
    for (unsigned i = 0; i < pack; i += shared.perRegister)
      fromRegister(k,
                   types.size() == 1
                       ? words
                       : Value(LLVM::ExtractValueOp::create(k.b, k.e.loc, words, word++)),
                   std::min(shared.perRegister, pack - i), element, values);
  }
  return results;
}

void emitAsm(Kernel &k, tile::InlineAsmOp op) {
  auto first = dyn_cast<RankedTensorType>(op.getResult().front().getType());
  if (!first) {
    SmallVector<SmallVector<Value>> operands;
    for (Value operand : op.getArgs())
      operands.emplace_back(op.getPack(), k.scalar(operand));
    auto results = runAsm(k, op, operands);
    for (auto [result, values] : llvm::zip(op.getResult(), results))
      k.scalars[result] = values[0];
    return;
  }
  SmallVector<Buffer> targets;
  for (Value result : op.getResult())
    targets.push_back(k.allocate(result));
  forEachGroup(k, first.getShape(), op.getPack(),
               [&](ArrayRef<SmallVector<Value>> places, unsigned valid) {
                 SmallVector<SmallVector<Value>> operands;
                 for (Value operand : op.getArgs()) {
                   operands.emplace_back();
                   for (ArrayRef<Value> place : places)
                     operands.back().push_back(elementAt(k, operand, place));
                 }
                 auto results = runAsm(k, op, operands);
                 for (auto [target, values] : llvm::zip(targets, results))
                   for (unsigned i = 0; i < valid; ++i)
                     writeElement(k, target, places[i], values[i]);
               });
  for (auto [result, target] : llvm::zip(op.getResult(), targets))
    k.buffers[result] = target;
}

void emitMap(Kernel &k, tile::MapElementwiseOp op) {
  auto shape = tile::shapeOf(op.getSrcs().front().getType());
  SmallVector<Buffer> targets;
  for (Value result : op.getResult())
    targets.push_back(k.allocate(result));
  Block &body = op.getBody().front();
  unsigned pack = op.getPack();
  forEachGroup(k, shape, pack, [&](ArrayRef<SmallVector<Value>> places, unsigned valid) {
    for (auto [number, source] : llvm::enumerate(op.getSrcs()))
      for (unsigned i = 0; i < pack; ++i)
        k.scalars[body.getArgument(number * pack + i)] = elementAt(k, source, places[i]);
    k.emitBlock(body);
    ValueRange yielded = body.getTerminator()->getOperands();
    for (auto [number, target] : llvm::enumerate(targets))
      for (unsigned i = 0; i < valid; ++i)
        writeElement(k, target, places[i], k.scalar(yielded[number * pack + i]));
  });
  for (auto [result, target] : llvm::zip(op.getResult(), targets))
    k.buffers[result] = target;
}

} // namespace

bool emitForeign(Kernel &k, Operation *op) {
  if (auto assembly = dyn_cast<tile::InlineAsmOp>(op)) {
    emitAsm(k, assembly);
    return true;
  }
  if (auto map = dyn_cast<tile::MapElementwiseOp>(op)) {
    emitMap(k, map);
    return true;
  }
  return false;
}

} // namespace nereid::cpu
