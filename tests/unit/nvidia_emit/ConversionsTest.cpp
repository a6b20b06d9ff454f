// Conversions of floats that architectures without 8-bit floats do on the bits: made for sm_80, run
// on this machine's CPU, compared with LLVM's APFloat, every 16-bit value and a sample of fp32.
#include "gpu/emit/Elements.h"
#include "targets/nvidia/emit/Emitter.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/TargetSelect.h"
#include "gtest/gtest.h"

#include <random>

using namespace nereid::nvidia;

namespace {

class ConversionsTest : public testing::Test {
protected:
  ConversionsTest() {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    nereid::ngpu::loadDialects(context);
  }

  /// The conversion as a function from bits to bits.
  using Bits = uint32_t (*)(uint32_t);
  Bits make(mlir::Type from, mlir::Type to, bool towardsZero) {
    auto llvmContext = std::make_unique<llvm::LLVMContext>();
    auto module = std::make_unique<llvm::Module>("conversion", *llvmContext);
    auto source = mlir::parseSourceString<mlir::ModuleOp>(
        "func.func @k() attributes {tile.kernel} { return }", &context);
    EmitOptions options;
    options.sm = 80;
    options.lineInfo = false;
    {
      Emitter e(*source->getOps<mlir::func::FuncOp>().begin(), options, *module);
      llvm::Type *i32 = e.b.getInt32Ty();
      auto *function =
          llvm::Function::Create(llvm::FunctionType::get(i32, {i32}, false),
                                 llvm::GlobalValue::ExternalLinkage, "convert", *module);
      e.b.SetInsertPoint(llvm::BasicBlock::Create(*llvmContext, "entry", function));
      llvm::Type *fromType = e.type(from);
      llvm::Value *bits =
          e.b.CreateTrunc(function->getArg(0), e.intType(from.getIntOrFloatBitWidth()));
      llvm::Value *result =
          convertFloat(e, e.b.CreateBitCast(bits, fromType), from, to, towardsZero);
      result = e.b.CreateBitCast(result, e.intType(to.getIntOrFloatBitWidth()));
      e.b.CreateRet(e.b.CreateZExt(result, i32));
    }
    EXPECT_FALSE(llvm::verifyModule(*module, &llvm::errs()));
    jits.push_back(llvm::cantFail(llvm::orc::LLJITBuilder().create()));
    llvm::cantFail(jits.back()->addIRModule(
        llvm::orc::ThreadSafeModule(std::move(module), std::move(llvmContext))));
    return llvm::cantFail(jits.back()->lookup("convert")).toPtr<Bits>();
  }

  static bool isF8(mlir::Type type) { return type.getIntOrFloatBitWidth() == 8; }

  /// Compares on `inputs`; 8-bit results saturate, and any NaN is as good as another.
  void compare(mlir::Type from, mlir::Type to, bool towardsZero, llvm::ArrayRef<uint32_t> inputs) {
    Bits convert = make(from, to, towardsZero);
    const auto &fromKind = mlir::cast<mlir::FloatType>(from).getFloatSemantics();
    const auto &toKind = mlir::cast<mlir::FloatType>(to).getFloatSemantics();
    llvm::APFloat largest = llvm::APFloat::getLargest(toKind);
    bool lossy;
    largest.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
    unsigned wrong = 0;
    for (uint32_t input : inputs) {
      llvm::APFloat x(fromKind, llvm::APInt(from.getIntOrFloatBitWidth(), input));
      llvm::APFloat got(toKind, llvm::APInt(to.getIntOrFloatBitWidth(), convert(input)));
      llvm::APFloat want = x;
      want.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
      if (isF8(to) && !want.isNaN() && abs(want) > largest) {
        bool negative = want.isNegative();
        want = largest;
        if (negative)
          want.changeSign();
      }
      want.convert(toKind,
                   towardsZero ? llvm::APFloat::rmTowardZero : llvm::APFloat::rmNearestTiesToEven,
                   &lossy);
      if (!(want.isNaN() ? got.isNaN() : got.bitwiseIsEqual(want)) && ++wrong <= 5)
        ADD_FAILURE() << "of bits " << input << ": " << got.bitcastToAPInt().getZExtValue()
                      << " instead of " << want.bitcastToAPInt().getZExtValue();
    }
    EXPECT_EQ(wrong, 0u);
  }

  mlir::MLIRContext context;
  std::vector<std::unique_ptr<llvm::orc::LLJIT>> jits;
  mlir::Builder builder{&context};
};

std::vector<uint32_t> every(unsigned bits) {
  std::vector<uint32_t> all(size_t(1) << bits);
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = i;
  return all;
}

/// Random bits, and around every power of two what lies on or beside the halfway points.
std::vector<uint32_t> sample() {
  std::vector<uint32_t> bits;
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i)
    bits.push_back(random());
  for (uint32_t exponent = 0; exponent < 256; ++exponent)
    for (uint32_t part = 0; part < 64; ++part)
      for (int beside = -1; beside <= 1; ++beside)
        bits.push_back((exponent << 23 | part << 17) + beside);
  return bits;
}

TEST_F(ConversionsTest, EightBitFloatsWiden) {
  for (mlir::Type from : {mlir::Type(mlir::Float8E4M3FNType::get(&context)),
                          mlir::Type(mlir::Float8E5M2Type::get(&context))})
    for (mlir::Type to : {mlir::Type(builder.getF16Type()), mlir::Type(builder.getF32Type())})
      compare(from, to, false, every(8));
}

TEST_F(ConversionsTest, HalvesNarrow) {
  for (mlir::Type to : {mlir::Type(mlir::Float8E4M3FNType::get(&context)),
                        mlir::Type(mlir::Float8E5M2Type::get(&context))})
    for (bool towardsZero : {false, true})
      compare(builder.getF16Type(), to, towardsZero, every(16));
}

TEST_F(ConversionsTest, BrainFloatsNarrow) {
  for (mlir::Type to : {mlir::Type(mlir::Float8E4M3FNType::get(&context)),
                        mlir::Type(mlir::Float8E5M2Type::get(&context))})
    for (bool towardsZero : {false, true})
      compare(builder.getBF16Type(), to, towardsZero, every(16));
}

TEST_F(ConversionsTest, SinglesNarrow) {
  auto inputs = sample();
  for (mlir::Type to : {mlir::Type(mlir::Float8E4M3FNType::get(&context)),
                        mlir::Type(mlir::Float8E5M2Type::get(&context))})
    for (bool towardsZero : {false, true})
      compare(builder.getF32Type(), to, towardsZero, inputs);
}

TEST_F(ConversionsTest, OneEightBitFloatToTheOther) {
  auto e4m3 = mlir::Float8E4M3FNType::get(&context);
  auto e5m2 = mlir::Float8E5M2Type::get(&context);
  compare(e4m3, e5m2, false, every(8));
  compare(e5m2, e4m3, false, every(8));
}

} // namespace
