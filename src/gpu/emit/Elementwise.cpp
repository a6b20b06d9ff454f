// Elementwise ops, one register at a time. LLVM's instructions mean the same as arith's, except
// where they leave something undefined that the language defines.
#include "gpu/emit/Elements.h"
#include "gpu/emit/FloatBounds.h"
#include "gpu/emit/GlobalAccess.h"
#include "ir/ngpu/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

llvm::CmpInst::Predicate predicateOf(arith::CmpIPredicate predicate) {
  using P = arith::CmpIPredicate;
  switch (predicate) {
  case P::eq:
    return llvm::CmpInst::ICMP_EQ;
  case P::ne:
    return llvm::CmpInst::ICMP_NE;
  case P::slt:
    return llvm::CmpInst::ICMP_SLT;
  case P::sle:
    return llvm::CmpInst::ICMP_SLE;
  case P::sgt:
    return llvm::CmpInst::ICMP_SGT;
  case P::sge:
    return llvm::CmpInst::ICMP_SGE;
  case P::ult:
    return llvm::CmpInst::ICMP_ULT;
  case P::ule:
    return llvm::CmpInst::ICMP_ULE;
  case P::ugt:
    return llvm::CmpInst::ICMP_UGT;
  case P::uge:
    return llvm::CmpInst::ICMP_UGE;
  }
  llvm_unreachable("an unknown predicate");
}

/// arith's predicates of floats have the order of LLVM's.
llvm::CmpInst::Predicate predicateOf(arith::CmpFPredicate predicate) {
  static_assert(int(arith::CmpFPredicate::AlwaysFalse) == int(llvm::CmpInst::FCMP_FALSE));
  switch (predicate) {
  case arith::CmpFPredicate::AlwaysFalse:
    return llvm::CmpInst::FCMP_FALSE;
  case arith::CmpFPredicate::OEQ:
    return llvm::CmpInst::FCMP_OEQ;
  case arith::CmpFPredicate::OGT:
    return llvm::CmpInst::FCMP_OGT;
  case arith::CmpFPredicate::OGE:
    return llvm::CmpInst::FCMP_OGE;
  case arith::CmpFPredicate::OLT:
    return llvm::CmpInst::FCMP_OLT;
  case arith::CmpFPredicate::OLE:
    return llvm::CmpInst::FCMP_OLE;
  case arith::CmpFPredicate::ONE:
    return llvm::CmpInst::FCMP_ONE;
  case arith::CmpFPredicate::ORD:
    return llvm::CmpInst::FCMP_ORD;
  case arith::CmpFPredicate::UEQ:
    return llvm::CmpInst::FCMP_UEQ;
  case arith::CmpFPredicate::UGT:
    return llvm::CmpInst::FCMP_UGT;
  case arith::CmpFPredicate::UGE:
    return llvm::CmpInst::FCMP_UGE;
  case arith::CmpFPredicate::ULT:
    return llvm::CmpInst::FCMP_ULT;
  case arith::CmpFPredicate::ULE:
    return llvm::CmpInst::FCMP_ULE;
  case arith::CmpFPredicate::UNE:
    return llvm::CmpInst::FCMP_UNE;
  case arith::CmpFPredicate::UNO:
    return llvm::CmpInst::FCMP_UNO;
  case arith::CmpFPredicate::AlwaysTrue:
    return llvm::CmpInst::FCMP_TRUE;
  }
  llvm_unreachable("an unknown predicate");
}

/// Quotients and remainders. A division by zero is undefined only in its result: lanes that are
/// masked off may well divide by zero, and nothing may be concluded from it. The same holds for the
/// smallest number divided by -1.
llvm::Value *divide(Emitter &e, Operation *op, llvm::Value *lhs, llvm::Value *rhs) {
  bool isSigned = isa<arith::DivSIOp, arith::RemSIOp, arith::FloorDivSIOp, arith::CeilDivSIOp>(op);
  bool isRemainder = isa<arith::RemSIOp, arith::RemUIOp>(op);
  llvm::Type *type = lhs->getType();
  auto *constant = dyn_cast<llvm::ConstantInt>(rhs);
  auto constantOf = [&](int64_t value) {
    return llvm::ConstantInt::get(type, value, /*IsSigned=*/true, /*ImplicitTrunc=*/true);
  };
  if (!constant || constant->isZero())
    rhs = e.b.CreateSelect(e.b.CreateICmpEQ(rhs, constantOf(0)), constantOf(1), rhs);
  if (isSigned) {
    // Numbers that are known not to be negative are divided faster.
    const auto &integers = e.integers(op);
    auto isNatural = [&](mlir::Value value) {
      auto *info = integers.lookup(value);
      return info && info->isNonNegative();
    };
    if (isNatural(op->getOperand(0)) && isNatural(op->getOperand(1)))
      isSigned = false;
  }
  if (!isSigned)
    return isRemainder ? e.b.CreateURem(lhs, rhs) : e.b.CreateUDiv(lhs, rhs);
  if (constant && !constant->isZero() && !constant->isMinusOne())
    return isRemainder ? e.b.CreateSRem(lhs, rhs) : e.b.CreateSDiv(lhs, rhs);
  llvm::Value *isMinusOne = e.b.CreateICmpEQ(rhs, constantOf(-1));
  llvm::Value *safe = e.b.CreateSelect(isMinusOne, constantOf(1), rhs);
  if (isRemainder) // x % 1 and x % -1 are both 0
    return e.b.CreateSRem(lhs, safe);
  return e.b.CreateSelect(isMinusOne, e.b.CreateNeg(lhs), e.b.CreateSDiv(lhs, safe));
}

/// Division that rounds down or up: the truncated quotient, corrected where there is a remainder.
llvm::Value *divideRounded(Emitter &e, Operation *op, llvm::Value *lhs, llvm::Value *rhs) {
  llvm::Type *type = lhs->getType();
  llvm::Value *zero = llvm::ConstantInt::get(type, 0);
  llvm::Value *quotient = divide(e, op, lhs, rhs);
  llvm::Value *rest = e.b.CreateSub(lhs, e.b.CreateMul(quotient, rhs));
  llvm::Value *inexact = e.b.CreateICmpNE(rest, zero);
  if (isa<arith::CeilDivUIOp>(op))
    return e.b.CreateAdd(quotient, e.b.CreateZExt(inexact, type));
  llvm::Value *negative = e.b.CreateICmpSLT(e.b.CreateXor(lhs, rhs), zero);
  if (isa<arith::FloorDivSIOp>(op))
    return e.b.CreateSub(quotient, e.b.CreateZExt(e.b.CreateAnd(inexact, negative), type));
  return e.b.CreateAdd(quotient,
                       e.b.CreateZExt(e.b.CreateAnd(inexact, e.b.CreateNot(negative)), type));
}

/// The approximate quotient, within 2 ulp in f32 and correctly rounded in f64.
llvm::Value *divideFloats(Emitter &e, llvm::Value *lhs, llvm::Value *rhs) {
  llvm::Type *type = lhs->getType();
  if (type->isDoubleTy())
    return e.b.CreateFDiv(lhs, rhs);
  if (type->isFloatTy())
    return e.divide(lhs, rhs);
  llvm::Type *f32 = e.b.getFloatTy();
  return e.b.CreateFPTrunc(divideFloats(e, e.b.CreateFPExt(lhs, f32), e.b.CreateFPExt(rhs, f32)),
                           type);
}

/// Quotients of several numbers by one: multiplications with its reciprocal. The divisor is brought
/// to where its reciprocal is a normal number by a power of two, with which the dividends go along:
/// what over- or underflows then does so in the quotient too. `isModerate`: it is there already.
/// Within 2 ulp.
Values divideByOne(Emitter &e, llvm::ArrayRef<llvm::Value *> dividends, llvm::Value *divisor,
                   bool isModerate) {
  llvm::IRBuilder<> &b = e.b;
  llvm::Type *type = divisor->getType(), *f32 = b.getFloatTy();
  auto constant = [&](double value) { return llvm::ConstantFP::get(f32, value); };
  llvm::Value *wide = type == f32 ? divisor : b.CreateFPExt(divisor, f32);
  llvm::Value *scale = nullptr;
  if (!isModerate) {
    llvm::Value *size = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, wide);
    scale = b.CreateSelect(b.CreateFCmpOGT(size, constant(0x1p64)), constant(0x1p-64), constant(1));
    scale = b.CreateSelect(b.CreateFCmpOLT(size, constant(0x1p-64)), constant(0x1p64), scale);
    wide = b.CreateFMul(wide, scale);
  }
  llvm::Value *reciprocal = e.reciprocal(wide);
  Values quotients;
  for (llvm::Value *dividend : dividends) {
    llvm::Value *x = type == f32 ? dividend : b.CreateFPExt(dividend, f32);
    llvm::Value *quotient = b.CreateFMul(scale ? b.CreateFMul(x, scale) : x, reciprocal);
    quotients.push_back(type == f32 ? quotient : b.CreateFPTrunc(quotient, type));
  }
  return quotients;
}

/// Divides all registers, those with a common divisor together.
Values divideAll(Emitter &e, llvm::ArrayRef<llvm::Value *> lhs, llvm::ArrayRef<llvm::Value *> rhs,
                 bool isModerate) {
  llvm::MapVector<llvm::Value *, llvm::SmallVector<unsigned>> byDivisor;
  for (auto [reg, divisor] : llvm::enumerate(rhs))
    byDivisor[divisor].push_back(reg);
  Values results(lhs.size(), nullptr);
  for (auto &[divisor, registers] : byDivisor) {
    constexpr size_t worthwhile = 4;
    if (registers.size() < worthwhile || divisor->getType()->isDoubleTy()) {
      for (unsigned reg : registers)
        results[reg] = divideFloats(e, lhs[reg], divisor);
      continue;
    }
    Values dividends;
    for (unsigned reg : registers)
      dividends.push_back(lhs[reg]);
    for (auto [reg, quotient] :
         llvm::zip(registers, divideByOne(e, dividends, divisor, isModerate)))
      results[reg] = quotient;
  }
  return results;
}

llvm::Value *minMax(Emitter &e, llvm::Intrinsic::ID id, llvm::Value *lhs, llvm::Value *rhs) {
  return e.b.CreateBinaryIntrinsic(id, lhs, rhs);
}

llvm::Value *arithElement(Emitter &e, Operation *op, llvm::ArrayRef<llvm::Value *> in) {
  llvm::IRBuilder<> &b = e.b;
  llvm::Type *result = e.type(op->getResult(0).getType());
  auto from = [&] { return tile::elementOf(op->getOperand(0).getType()); };
  auto to = [&] { return tile::elementOf(op->getResult(0).getType()); };
  return llvm::TypeSwitch<Operation *, llvm::Value *>(op)
      .Case<arith::AddIOp>([&](auto) { return b.CreateAdd(in[0], in[1]); })
      .Case<arith::SubIOp>([&](auto) { return b.CreateSub(in[0], in[1]); })
      .Case<arith::MulIOp>([&](auto) { return b.CreateMul(in[0], in[1]); })
      .Case<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp>(
          [&](auto) { return divide(e, op, in[0], in[1]); })
      .Case<arith::FloorDivSIOp, arith::CeilDivSIOp, arith::CeilDivUIOp>(
          [&](auto) { return divideRounded(e, op, in[0], in[1]); })
      .Case<arith::AndIOp>([&](auto) { return b.CreateAnd(in[0], in[1]); })
      .Case<arith::OrIOp>([&](auto) { return b.CreateOr(in[0], in[1]); })
      .Case<arith::XOrIOp>([&](auto) { return b.CreateXor(in[0], in[1]); })
      .Case<arith::ShLIOp>([&](auto) { return b.CreateShl(in[0], in[1]); })
      .Case<arith::ShRSIOp>([&](auto) { return b.CreateAShr(in[0], in[1]); })
      .Case<arith::ShRUIOp>([&](auto) { return b.CreateLShr(in[0], in[1]); })
      .Case<arith::MaxSIOp>([&](auto) { return minMax(e, llvm::Intrinsic::smax, in[0], in[1]); })
      .Case<arith::MinSIOp>([&](auto) { return minMax(e, llvm::Intrinsic::smin, in[0], in[1]); })
      .Case<arith::MaxUIOp>([&](auto) { return minMax(e, llvm::Intrinsic::umax, in[0], in[1]); })
      .Case<arith::MinUIOp>([&](auto) { return minMax(e, llvm::Intrinsic::umin, in[0], in[1]); })
      .Case<arith::CmpIOp>([&](arith::CmpIOp compare) {
        return b.CreateICmp(predicateOf(compare.getPredicate()), in[0], in[1]);
      })
      .Case<arith::CmpFOp>([&](arith::CmpFOp compare) {
        return b.CreateFCmp(predicateOf(compare.getPredicate()), in[0], in[1]);
      })
      .Case<arith::SelectOp>([&](auto) { return b.CreateSelect(in[0], in[1], in[2]); })
      .Case<arith::AddFOp>([&](auto) { return b.CreateFAdd(in[0], in[1]); })
      .Case<arith::SubFOp>([&](auto) { return b.CreateFSub(in[0], in[1]); })
      .Case<arith::MulFOp>([&](auto) { return b.CreateFMul(in[0], in[1]); })
      .Case<arith::DivFOp>([&](auto) { return divideFloats(e, in[0], in[1]); })
      .Case<arith::RemFOp>([&](auto) { return floatRemainder(e, in[0], in[1]); })
      .Case<arith::NegFOp>([&](auto) { return b.CreateFNeg(in[0]); })
      .Case<arith::MaximumFOp>(
          [&](auto) { return minMax(e, llvm::Intrinsic::maximum, in[0], in[1]); })
      .Case<arith::MinimumFOp>(
          [&](auto) { return minMax(e, llvm::Intrinsic::minimum, in[0], in[1]); })
      .Case<arith::MaxNumFOp>(
          [&](auto) { return minMax(e, llvm::Intrinsic::maxnum, in[0], in[1]); })
      .Case<arith::MinNumFOp>(
          [&](auto) { return minMax(e, llvm::Intrinsic::minnum, in[0], in[1]); })
      .Case<arith::ExtSIOp, arith::IndexCastOp>(
          [&](auto) { return b.CreateSExtOrTrunc(in[0], result); })
      .Case<arith::ExtUIOp, arith::IndexCastUIOp>(
          [&](auto) { return b.CreateZExtOrTrunc(in[0], result); })
      .Case<arith::TruncIOp>([&](auto) { return b.CreateTrunc(in[0], result); })
      .Case<arith::ExtFOp, arith::TruncFOp>(
          [&](auto) { return convertFloat(e, in[0], from(), to()); })
      .Case<arith::SIToFPOp>([&](auto) { return b.CreateSIToFP(in[0], result); })
      .Case<arith::UIToFPOp>([&](auto) { return b.CreateUIToFP(in[0], result); })
      .Case<arith::FPToSIOp>([&](auto) { return b.CreateFPToSI(in[0], result); })
      .Case<arith::FPToUIOp>([&](auto) { return b.CreateFPToUI(in[0], result); })
      .Case<arith::BitcastOp>([&](auto) { return e.bitcast(in[0], result); })
      .Default([](Operation *) -> llvm::Value * { return nullptr; });
}

/// An address some elements further. Offsets in elements keep their constants apart from what the
/// thread's index gives, so that LLVM can put them into the instruction.
llvm::Value *advance(Emitter &e, tile::AddPtrOp op, llvm::Value *pointer, llvm::Value *offset) {
  auto type = cast<tile::PtrType>(tile::elementOf(op.getPtr().getType()));
  unsigned size = tile::sizeInBytes(type.getPointee());
  llvm::Value *wide = e.b.CreateSExt(offset, e.b.getInt64Ty());
  return e.b.CreateGEP(e.intType(8 * size), pointer, wide);
}

llvm::Value *tileElement(Emitter &e, Operation *op, llvm::ArrayRef<llvm::Value *> in) {
  llvm::IRBuilder<> &b = e.b;
  mlir::Type to =
      op->getNumResults() == 1 ? tile::elementOf(op->getResult(0).getType()) : mlir::Type();
  return llvm::TypeSwitch<Operation *, llvm::Value *>(op)
      .Case<tile::AddPtrOp>([&](auto add) { return advance(e, add, in[0], in[1]); })
      .Case<tile::IntToPtrOp>([&](auto) { return b.CreateIntToPtr(in[0], e.type(to)); })
      .Case<tile::PtrToIntOp>([&](auto) { return b.CreatePtrToInt(in[0], e.type(to)); })
      .Case<tile::PtrCastOp, tile::HintOp>([&](auto) { return in[0]; })
      .Case<tile::FpCastOp>([&](tile::FpCastOp cast) {
        return convertFloat(e, in[0], tile::elementOf(cast.getSrc().getType()), to,
                            cast.getRounding() == tile::Rounding::RTZ);
      })
      .Case<tile::DivRNOp>([&](auto) { return b.CreateFDiv(in[0], in[1]); })
      .Case<tile::SqrtRNOp>(
          [&](auto) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, in[0]); })
      .Case<tile::MulHiUOp>([&](auto) -> llvm::Value * {
        unsigned bits = in[0]->getType()->getIntegerBitWidth();
        llvm::Type *wide = e.intType(2 * bits);
        llvm::Value *product = b.CreateNUWMul(b.CreateZExt(in[0], wide), b.CreateZExt(in[1], wide));
        return b.CreateTrunc(b.CreateLShr(product, bits), in[0]->getType());
      })
      .Case<tile::ExternOp>([&](tile::ExternOp external) {
        llvm::CallInst *call = e.external(external.getSymbol(), e.type(to), in);
        if (external.getPure())
          call->setDoesNotAccessMemory();
        call->setDoesNotThrow();
        return call;
      })
      .Default([](Operation *) -> llvm::Value * { return nullptr; });
}

llvm::Constant *constantOf(Emitter &e, Attribute attribute, mlir::Type element) {
  llvm::Type *type = e.type(element);
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return llvm::ConstantInt::get(type, integer.getValue().sextOrTrunc(type->getIntegerBitWidth()));
  llvm::APFloat value = cast<FloatAttr>(attribute).getValue();
  if (type->isIntegerTy()) // 8-bit floats are their bits
    return llvm::ConstantInt::get(type, value.bitcastToAPInt());
  return llvm::ConstantFP::get(type, value);
}

/// Constants. A tensor of different numbers is a table in memory, read at every register's place.
/// Each word is combined with a zero that no compiler knows to be one: what a shuffle gives back to
/// the lane that it came from, XOR the same.
void emitRenew(Emitter &e, ngpu::RenewOp op) {
  llvm::IRBuilder<> &b = e.b;
  llvm::ArrayRef<llvm::Value *> in = e.get(op.getSrc());
  llvm::Type *type = in[0]->getType();
  unsigned bits = type->getScalarSizeInBits(), part = std::max(1u, 32 / bits);
  llvm::SmallVector<llvm::Value *> words;
  for (unsigned first = 0; first < in.size(); first += part) {
    unsigned count = std::min<unsigned>(part, in.size() - first);
    llvm::Value *all = in[first];
    if (count > 1) {
      all = llvm::PoisonValue::get(llvm::FixedVectorType::get(type, count));
      for (unsigned i = 0; i < count; ++i)
        all = b.CreateInsertElement(all, in[first + i], uint64_t(i));
    }
    words.push_back(b.CreateBitCast(all, b.getIntNTy(bits * count)));
  }
  llvm::Value *known = b.CreateZExtOrTrunc(words[0], b.getInt32Ty());
  llvm::Value *zero = b.CreateXor(known, e.shuffleWord(Shuffle::Xor, known, b.getInt32(0)));
  Values out;
  for (llvm::Value *word : words) {
    unsigned count = word->getType()->getIntegerBitWidth() / bits;
    word = b.CreateXor(word, b.CreateZExtOrTrunc(zero, word->getType()));
    if (count == 1) {
      out.push_back(b.CreateBitCast(word, type));
      continue;
    }
    llvm::Value *all = b.CreateBitCast(word, llvm::FixedVectorType::get(type, count));
    for (unsigned i = 0; i < count; ++i)
      out.push_back(b.CreateExtractElement(all, uint64_t(i)));
  }
  e.set(op.getResult(), out);
}

void emitConstant(Emitter &e, arith::ConstantOp op) {
  auto tensor = dyn_cast<RankedTensorType>(op.getType());
  if (!tensor)
    return e.set(op, {constantOf(e, op.getValue(), op.getType())});
  auto dense = cast<DenseElementsAttr>(op.getValue());
  unsigned count = e.registerCount(tensor);
  if (dense.isSplat())
    return e.set(op, Values(count, constantOf(e, dense.getSplatValue<Attribute>(),
                                              tensor.getElementType())));
  llvm::SmallVector<llvm::Constant *> elements;
  llvm::Type *type = e.type(tensor);
  llvm::Type *stored = type->isIntegerTy(1) ? e.b.getInt8Ty() : type;
  for (Attribute element : dense.getValues<Attribute>()) {
    llvm::Constant *constant = constantOf(e, element, tensor.getElementType());
    if (stored != type)
      constant = llvm::ConstantInt::get(stored, constant->isOneValue());
    elements.push_back(constant);
  }
  auto *array = llvm::ArrayType::get(stored, elements.size());
  auto *table = new llvm::GlobalVariable(
      e.module, array, /*isConstant=*/true, llvm::GlobalValue::InternalLinkage,
      llvm::ConstantArray::get(array, elements), "table", nullptr,
      llvm::GlobalValue::NotThreadLocal, /*AddressSpace=*/1);
  Values registers;
  for (unsigned reg = 0; reg < count; ++reg) {
    llvm::Value *index = e.i32(0);
    for (auto [at, size] : llvm::zip(e.coordinates(tensor, reg), tensor.getShape()))
      index = e.b.CreateAdd(e.b.CreateMul(index, e.i32(size)), at);
    llvm::Value *element = e.b.CreateLoad(
        stored, e.b.CreateInBoundsGEP(stored, table, e.b.CreateZExt(index, e.b.getInt64Ty())));
    registers.push_back(stored == type ? element : e.b.CreateTrunc(element, type));
  }
  e.set(op, registers);
}

/// Operations on two 16-bit floats at once, as vectors of two. Null where there are none.
llvm::Value *packedElement(Emitter &e, Operation *op, llvm::ArrayRef<llvm::Value *> in) {
  return llvm::TypeSwitch<Operation *, llvm::Value *>(op)
      .Case<arith::AddFOp>([&](auto) { return e.b.CreateFAdd(in[0], in[1]); })
      .Case<arith::SubFOp>([&](auto) { return e.b.CreateFSub(in[0], in[1]); })
      .Case<arith::MulFOp>([&](auto) { return e.b.CreateFMul(in[0], in[1]); })
      .Case<arith::NegFOp>([&](auto) { return e.b.CreateFNeg(in[0]); })
      .Case<math::FmaOp>(
          [&](auto) { return e.b.CreateIntrinsic(llvm::Intrinsic::fma, {in[0]->getType()}, in); })
      .Case<arith::MaximumFOp>(
          [&](auto) { return minMax(e, llvm::Intrinsic::maximum, in[0], in[1]); })
      .Case<arith::MinimumFOp>(
          [&](auto) { return minMax(e, llvm::Intrinsic::minimum, in[0], in[1]); })
      .Case<arith::MaxNumFOp>(
          [&](auto) { return minMax(e, llvm::Intrinsic::maxnum, in[0], in[1]); })
      .Case<arith::MinNumFOp>(
          [&](auto) { return minMax(e, llvm::Intrinsic::minnum, in[0], in[1]); })
      .Default([](Operation *) -> llvm::Value * { return nullptr; });
}

bool isPackable(Emitter &e, Operation *op) {
  mlir::Type element = tile::elementOf(op->getResult(0).getType());
  return e.packs(element) && e.registerCount(op->getResult(0).getType()) % 2 == 0 &&
         isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::NegFOp, math::FmaOp,
             arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp>(op);
}

} // namespace

llvm::Value *emitElement(Emitter &e, Operation *op, llvm::ArrayRef<llvm::Value *> operands) {
  if (op->getNumResults() != 1)
    return nullptr;
  if (isa<arith::ArithDialect>(op->getDialect()))
    return arithElement(e, op, operands);
  if (isa<math::MathDialect>(op->getDialect()))
    return emitMath(e, op, operands);
  if (isa<tile::TileDialect>(op->getDialect()))
    return tileElement(e, op, operands);
  return nullptr;
}

bool emitElementwise(Emitter &e, Operation *op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    emitConstant(e, constant);
    return true;
  }
  if (auto renew = dyn_cast<ngpu::RenewOp>(op)) {
    emitRenew(e, renew);
    return true;
  }
  if (isa<ub::PoisonOp>(op)) {
    mlir::Type type = op->getResult(0).getType();
    e.set(op->getResult(0), Values(e.registerCount(type), llvm::PoisonValue::get(e.type(type))));
    return true;
  }
  bool isCandidate =
      isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) ||
      isa<tile::AddPtrOp, tile::IntToPtrOp, tile::PtrToIntOp, tile::PtrCastOp, tile::FpCastOp,
          tile::DivRNOp, tile::SqrtRNOp, tile::MulHiUOp, tile::ExternOp, tile::HintOp>(op);
  if (!isCandidate || op->getNumResults() != 1)
    return false;

  mlir::Type type = op->getResult(0).getType();
  unsigned count = e.registerCount(type);
  if (isa<arith::ExtFOp, arith::TruncFOp, tile::FpCastOp>(op)) {
    auto cast = dyn_cast<tile::FpCastOp>(op);
    e.set(op->getResult(0),
          convertFloats(e, e.get(op->getOperand(0)), tile::elementOf(op->getOperand(0).getType()),
                        tile::elementOf(type), cast && cast.getRounding() == tile::Rounding::RTZ));
    return true;
  }
  if (isa<arith::DivFOp>(op) && count > 1) {
    e.set(op->getResult(0), divideAll(e, e.get(op->getOperand(0)), e.get(op->getOperand(1)),
                                      isModerate(op->getOperand(1))));
    return true;
  }
  Values results;
  if (isPackable(e, op)) {
    auto *pair = llvm::FixedVectorType::get(e.type(type), 2);
    for (unsigned reg = 0; reg < count; reg += 2) {
      Values operands;
      for (mlir::Value operand : op->getOperands()) {
        auto registers = e.get(operand);
        llvm::Value *both =
            e.b.CreateInsertElement(llvm::PoisonValue::get(pair), registers[reg], uint64_t(0));
        operands.push_back(e.b.CreateInsertElement(both, registers[reg + 1], uint64_t(1)));
      }
      llvm::Value *both = packedElement(e, op, operands);
      results.push_back(e.b.CreateExtractElement(both, uint64_t(0)));
      results.push_back(e.b.CreateExtractElement(both, uint64_t(1)));
    }
    e.set(op->getResult(0), results);
    return true;
  }
  // Masks that are known to be equal in several registers are computed once.
  llvm::SmallVector<std::pair<unsigned, int64_t>> origins;
  if (isa<arith::CmpIOp, arith::AndIOp, arith::OrIOp>(op) && count > 1 &&
      tile::elementOf(type).isInteger(1))
    origins = runOrigins(e, op, op->getResult(0));
  for (unsigned reg = 0; reg < count; ++reg) {
    if (!origins.empty() && origins[reg].first < reg && origins[reg].second == 0) {
      results.push_back(results[origins[reg].first]);
      continue;
    }
    Values operands;
    for (mlir::Value operand : op->getOperands()) {
      auto registers = e.get(operand);
      operands.push_back(registers[registers.size() == 1 ? 0 : reg]); // select's scalar condition
    }
    llvm::Value *result = emitElement(e, op, operands);
    if (!result)
      return false;
    results.push_back(result);
  }
  e.set(op->getResult(0), results);
  return true;
}

} // namespace nereid::gpu
