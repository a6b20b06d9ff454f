// Dots as PTX: every unit with its types, major orders and shapes must be accepted by the
// assembler, without spills and without its advice on performance.
#include "gpu/dots/DotPlan.h"
#include "ir/ngpu/Dialect.h"
#include "layout/Constructors.h"
#include "targets/nvidia/Machine.h"
#include "targets/nvidia/codegen/Assembler.h"
#include "targets/nvidia/codegen/Ptx.h"
#include "targets/nvidia/codegen/Toolkit.h"
#include "targets/nvidia/emit/Emitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Target/TargetMachine.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace nereid;
using namespace nereid::gpu;
using namespace nereid::nvidia;
using layout::LinearLayout;
using Storage = DotOperandPlan::Storage;

namespace {

class DotEmission : public ::testing::Test {
protected:
  DotEmission() : b(&context) {
    ngpu::loadDialects(context);
    b.setInsertionPointToStart((module = ModuleOp::create(b.getUnknownLoc())).getBody());
  }
  ~DotEmission() override { module.erase(); }

  static GpuOptions optionsFor(int sm, int warps) {
    GpuOptions options;
    options.machine = nvidia::machineOf({sm, sm >= 90});
    options.numWarps = warps;
    return options;
  }

  DotFacts facts(SmallVector<int64_t, 4> shape, int64_t k, Type element, Type accumulator,
                 bool kMajorA = true, bool kMajorB = false) {
    DotFacts facts;
    facts.shape = shape;
    facts.k = k;
    facts.a = {element, DotSource::Load, kMajorA};
    facts.b = {element, DotSource::Load, kMajorB};
    facts.accumulator = accumulator;
    return facts;
  }

  /// Begins a kernel.
  void begin(int sm, int warps) {
    b.setInsertionPointToEnd(module.getBody());
    kernel = func::FuncOp::create(b, loc(), "dot", b.getFunctionType({b.getI32Type()}, {}));
    kernel->setAttr("tile.kernel", b.getUnitAttr());
    kernel->setAttr("ngpu.num_warps", b.getI32IntegerAttr(warps));
    kernel->setAttr("ngpu.sm", b.getI32IntegerAttr(sm));
    b.setInsertionPointToStart(kernel.addEntryBlock());
    sharedBytes = 0;
  }

  Location loc() { return b.getUnknownLoc(); }

  Value allocate(ArrayRef<int64_t> shape, Type element, const LinearLayout &layout) {
    auto type =
        ngpu::BufferType::get(&context, shape, element, ngpu::LayoutAttr::get(&context, layout));
    auto alloc = ngpu::LocalAllocOp::create(b, loc(), type, Value(), IntegerAttr());
    alloc.setOffsetAttr(b.getI32IntegerAttr(sharedBytes));
    sharedBytes += llvm::alignTo(type.getBytes(), 1024);
    return alloc;
  }

  RankedTensorType tensor(ArrayRef<int64_t> shape, Type element, const LinearLayout &layout) {
    return ngpu::withLayout(RankedTensorType::get(shape, element), layout);
  }

  Value zero(RankedTensorType type) {
    return arith::ConstantOp::create(b, loc(), type, cast<TypedAttr>(b.getZeroAttr(type)));
  }

  struct Shapes {
    SmallVector<int64_t, 4> a, b;
  };
  static Shapes operandShapes(const DotFacts &facts) {
    Shapes shapes{facts.shape, facts.shape};
    shapes.a.back() = facts.k;
    shapes.b[shapes.b.size() - 2] = facts.k;
    return shapes;
  }

  /// A buffer, read into registers where the plan wants that.
  Value operand(const DotOperandPlan &plan, ArrayRef<int64_t> shape, Type element, Value buffer) {
    if (plan.storage == Storage::Shared)
      return buffer;
    return ngpu::LocalLoadOp::create(b, loc(), tensor(shape, element, plan.layout), buffer);
  }

  Value dot(const DotPlan &plan, Value a, Value bOperand, Value c, bool async = false,
            int promote = 0) {
    switch (plan.unit) {
    case MatrixUnit::Mma:
      return ngpu::MmaOp::create(b, loc(), c.getType(), a, bOperand, c, false, false);
    case MatrixUnit::Wgmma:
      return ngpu::WgmmaOp::create(b, loc(), c.getType(), a, bOperand, c, Value(), async, promote);
    case MatrixUnit::Fma:
      return ngpu::FmaDotOp::create(b, loc(), c.getType(), a, bOperand, c);
    }
    return {};
  }

  void store(Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<unsigned> order;
    for (unsigned dim = type.getRank(); dim-- > 0;)
      order.push_back(dim);
    Value out = allocate(type.getShape(), type.getElementType(),
                         layout::sharedLinear(layout::coreShape(type.getShape()), order));
    ngpu::LocalStoreOp::create(b, loc(), value, out);
  }

  std::string ptx(int sm) {
    func::ReturnOp::create(b, loc());
    EXPECT_TRUE(succeeded(verify(module)));
    nvidia::EmitOptions options;
    options.sm = sm;
    options.ptxVersion = 87;
    llvm::LLVMContext llvmContext;
    auto emitted = emitKernel(kernel, options, llvmContext);
    if (!emitted) {
      ADD_FAILURE() << llvm::toString(emitted.takeError());
      return "";
    }
    auto architecture = cantFail(architectureFor(sm));
    auto machine = cantFail(makeTargetMachine({architecture, 87, true}));
    KernelShape shape;
    shape.threads = 32 * emitted->warps;
    markKernel(*emitted->module->getFunction(emitted->entry), shape);
    optimize(*emitted->module, *machine);
    std::string text = cantFail(emitPtx(*emitted->module, *machine));
    kernel.erase();
    return text;
  }

  /// Assembles, and expects no spills and no advice.
  void assemble(const std::string &text, int sm, int mostRegisters = 255) {
    NoAssembler none;
    std::string path = findProgram("ptxas");
    if (path.empty())
      GTEST_SKIP() << "no ptxas";
    auto assembler = openPtxas(path, none);
    ASSERT_TRUE(assembler) << none.why;
    auto assembly = assembler->assemble(text, "dot", {cantFail(architectureFor(sm))});
    ASSERT_TRUE(bool(assembly)) << llvm::toString(assembly.takeError()) << text;
    EXPECT_TRUE(assembly->warnings.empty()) << assembly->warnings.front();
    EXPECT_EQ(assembly->spillStoreBytes, 0);
    EXPECT_LE(assembly->registers, mostRegisters);
  }

  /// A whole kernel with one dot, its PTX.
  std::string one(const DotFacts &facts, int sm, int warps, MatrixUnit unit, int promote = 0) {
    DotPlan plan = planDot(facts, optionsFor(sm, warps));
    EXPECT_EQ(plan.unit, unit);
    begin(sm, warps);
    Shapes shapes = operandShapes(facts);
    Value bufferA = allocate(shapes.a, facts.a.element, plan.a.buffer);
    Value bufferB = allocate(shapes.b, facts.b.element, plan.b.buffer);
    Value x = operand(plan.a, shapes.a, facts.a.element, bufferA);
    Value y = operand(plan.b, shapes.b, facts.b.element, bufferB);
    Value c = zero(tensor(facts.shape, facts.accumulator, plan.accumulator));
    store(dot(plan, x, y, c, false, promote));
    return ptx(sm);
  }

  static unsigned count(llvm::StringRef text, llvm::StringRef what) { return text.count(what); }

  MLIRContext context;
  OpBuilder b;
  ModuleOp module;
  func::FuncOp kernel;
  int sharedBytes = 0;
};

TEST_F(DotEmission, MmaOfEveryType) {
  Type f16 = b.getF16Type(), f32 = b.getF32Type(), f64 = b.getF64Type();
  Type e4m3 = Float8E4M3FNType::get(&context), e5m2 = Float8E5M2Type::get(&context);
  struct {
    Type element, accumulator;
    int sm;
    const char *instruction;
    unsigned k;
  } cases[] = {
      {f16, f32, 80, "m16n8k16.row.col.f32.f16.f16.f32", 16},
      {f16, f16, 80, "m16n8k16.row.col.f16.f16.f16.f16", 16},
      {b.getBF16Type(), f32, 80, "m16n8k16.row.col.f32.bf16.bf16.f32", 16},
      {f32, f32, 80, "m16n8k8.row.col.f32.tf32.tf32.f32", 8},
      {b.getI8Type(), b.getI32Type(), 80, "m16n8k32.row.col.s32.s8.s8.s32", 32},
      {f64, f64, 80, "m8n8k4.row.col.f64.f64.f64.f64", 4},
      {e4m3, f32, 89, "m16n8k32.row.col.f32.e4m3.e4m3.f32", 32},
      {e5m2, f32, 120, "m16n8k32.row.col.f32.e5m2.e5m2.f32", 32},
      {f16, f32, 100, "m16n8k16.row.col.f32.f16.f16.f32", 16},
      // Without an instruction of their own.
      {e4m3, f32, 100, "m16n8k16.row.col.f32.f16.f16.f32", 16},
      {e5m2, f32, 100, "m16n8k16.row.col.f32.f16.f16.f32", 16},
  };
  for (auto &test : cases)
    for (bool kMajorA : {true, false})
      for (bool kMajorB : {true, false}) {
        SCOPED_TRACE(test.instruction);
        std::string text =
            one(facts({64, 64}, 64, test.element, test.accumulator, kMajorA, kMajorB), test.sm, 4,
                MatrixUnit::Mma);
        // 2 x 2 warps of 32 x 32.
        unsigned rows = test.element.isF64() ? 4 : 2;
        EXPECT_EQ(count(text, test.instruction), rows * 4 * (64 / test.k));
        assemble(text, test.sm);
      }
}

TEST_F(DotEmission, MmaOfSmallAndOddShapes) {
  Type f16 = b.getF16Type(), f32 = b.getF32Type();
  for (auto [m, n] : {std::pair(1, 1), {1, 64}, {8, 16}, {16, 4}, {48, 24}, {24, 80}})
    for (int k : {16, 48}) {
      SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k);
      assemble(one(facts({m, n}, k, f16, f32), 80, 2, MatrixUnit::Mma), 80);
    }
  // Batches.
  std::string text = one(facts({3, 32, 32}, 32, f16, f32), 90, 4, MatrixUnit::Mma);
  EXPECT_EQ(count(text, "mma.sync"), 3u * 1 * 2 * 2);
  assemble(text, 90);
}

TEST_F(DotEmission, WgmmaOfEveryType) {
  Type f16 = b.getF16Type(), f32 = b.getF32Type();
  Type e4m3 = Float8E4M3FNType::get(&context), e5m2 = Float8E5M2Type::get(&context);
  struct {
    Type element, accumulator;
    const char *instruction;
    unsigned k;
  } cases[] = {
      {f16, f32, "m64n64k16.f32.f16.f16", 16},
      {f16, f16, "m64n64k16.f16.f16.f16", 16},
      {b.getBF16Type(), f32, "m64n64k16.f32.bf16.bf16", 16},
      {f32, f32, "m64n64k8.f32.tf32.tf32", 8},
      {b.getI8Type(), b.getI32Type(), "m64n64k32.s32.s8.s8", 32},
      {e4m3, f32, "m64n64k32.f32.e4m3.e4m3", 32},
      {e5m2, f32, "m64n64k32.f32.e5m2.e5m2", 32},
  };
  for (auto &test : cases)
    for (bool kMajorA : {true, false})
      for (bool kMajorB : {true, false}) {
        SCOPED_TRACE(test.instruction);
        std::string text =
            one(facts({128, 64}, 64, test.element, test.accumulator, kMajorA, kMajorB), 90, 4,
                MatrixUnit::Wgmma);
        EXPECT_EQ(count(text, test.instruction), 2 * (64 / test.k));
        EXPECT_EQ(count(text, "wgmma.fence"), 1u);
        assemble(text, 90);
      }
  // The operands of 8-bit floats may differ.
  DotFacts mixed = facts({64, 64}, 64, e4m3, f32);
  mixed.b.element = e5m2;
  assemble(one(mixed, 90, 4, MatrixUnit::Wgmma), 90);
  // Partial sums of 64 steps are added up in full precision.
  std::string text = one(facts({64, 64}, 128, e4m3, f32), 90, 4, MatrixUnit::Wgmma, 64);
  EXPECT_EQ(count(text, "wgmma.wait_group.sync.aligned 0"), 2u);
  assemble(text, 90);
}

TEST_F(DotEmission, WgmmaOfEveryShape) {
  Type f16 = b.getF16Type(), f32 = b.getF32Type();
  struct {
    int64_t m, n, k;
    int warps;
    const char *instruction;
    unsigned instructions;
  } cases[] = {
      {64, 8, 16, 4, "m64n8k16", 1},
      {64, 16, 64, 4, "m64n16k16", 4},
      {64, 256, 64, 4, "m64n256k16", 4},
      {64, 256, 64, 8, "m64n128k16", 4},
      {128, 256, 64, 8, "m64n256k16", 4},
      {256, 128, 64, 8, "m64n128k16", 8},
      {64, 192, 64, 4, "m64n192k16", 4},
      {64, 176, 64, 4, "m64n176k16", 4},
      {192, 128, 32, 4, "m64n128k16", 6},
      {128, 192, 96, 8, "m64n192k16", 6},
      // Repeats along N beyond a swizzle's width of K: an instruction a repeat.
      {64, 96, 128, 4, "m64n32k16", 24},
  };
  for (auto &test : cases)
    for (bool kMajorB : {true, false}) {
      SCOPED_TRACE(testing::Message() << test.m << "x" << test.n << "x" << test.k);
      std::string text = one(facts({test.m, test.n}, test.k, f16, f32, true, kMajorB), 90,
                             test.warps, MatrixUnit::Wgmma);
      if (kMajorB || test.n != 96)
        EXPECT_EQ(count(text, test.instruction), test.instructions) << text;
      assemble(text, 90);
    }
}

TEST_F(DotEmission, WgmmaReadsBothOrdersOfHalves) {
  Type f16 = b.getF16Type(), f32 = b.getF32Type();
  auto transposed = [&](bool kMajorA, bool kMajorB) {
    std::string text =
        one(facts({64, 64}, 16, f16, f32, kMajorA, kMajorB), 90, 4, MatrixUnit::Wgmma);
    size_t end = text.find(';', text.find("wgmma.mma_async"));
    return text.substr(end - 4, 4);
  };
  EXPECT_EQ(transposed(true, true), "0, 0");
  EXPECT_EQ(transposed(true, false), "0, 1");
  EXPECT_EQ(transposed(false, true), "1, 0");
}

TEST_F(DotEmission, PipelinedLoop) {
  // Slots of a ring, the product of the last round in flight: the accumulator must stay where it
  // is. 128 x 256 with two groups of warps is what fits into the registers.
  Type f16 = b.getF16Type(), f32 = b.getF32Type();
  for (bool kMajorB : {true, false}) {
    DotFacts matmul = facts({128, 256}, 64, f16, f32, true, kMajorB);
    DotPlan plan = planDot(matmul, optionsFor(90, 8));
    begin(90, 8);
    Value ringA = allocate({3, 128, 64}, f16, plan.a.buffer);
    Value ringB = allocate({3, 64, 256}, f16, plan.b.buffer);
    RankedTensorType type = tensor({128, 256}, f32, plan.accumulator);
    Value zeroI = arith::ConstantIntOp::create(b, loc(), 0, 32);
    Value oneI = arith::ConstantIntOp::create(b, loc(), 1, 32);
    Value three = arith::ConstantIntOp::create(b, loc(), 3, 32);
    auto loop = scf::ForOp::create(b, loc(), zeroI, kernel.getArgument(0), oneI, zero(type));
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      Value index = arith::RemUIOp::create(b, loc(), loop.getInductionVar(), three);
      auto slot = [&](Value ring) -> Value {
        auto of = cast<ngpu::BufferType>(ring.getType());
        auto to = ngpu::BufferType::get(&context, of.getShape().drop_front(), of.getElementType(),
                                        of.getLayout());
        return ngpu::SlotOp::create(b, loc(), to, ring, index);
      };
      Value a = slot(ringA), bSlot = slot(ringB);
      Value product = dot(plan, a, bSlot, loop.getRegionIterArg(0), /*async=*/true);
      auto wait = ngpu::WgmmaWaitOp::create(b, loc(), product.getType(), 1, product);
      scf::YieldOp::create(b, loc(), wait.getResult(0));
    }
    auto wait = ngpu::WgmmaWaitOp::create(b, loc(), type, 0, loop.getResult(0));
    store(wait.getResult(0));
    std::string text = ptx(90);
    EXPECT_EQ(count(text, "wgmma.mma_async"), 4u);
    assemble(text, 90, 168 + 60);
  }
}

TEST_F(DotEmission, MultiplyAdd) {
  Type f16 = b.getF16Type(), f32 = b.getF32Type(), f64 = b.getF64Type();
  for (bool kMajorA : {true, false})
    for (bool kMajorB : {true, false}) {
      DotFacts ieee = facts({64, 64}, 32, f32, f32, kMajorA, kMajorB);
      ieee.precision = tile::InputPrecision::IEEE;
      std::string text = one(ieee, 90, 4, MatrixUnit::Fma);
      EXPECT_EQ(count(text, "fma.rn.f32"), 32u * 32);
      // Operands are read 16 bytes at a time.
      EXPECT_EQ(count(text, "ld.shared.b32"), 0u) << kMajorA << kMajorB;
      assemble(text, 90);
    }
  DotFacts large = facts({128, 128}, 64, f32, f32);
  large.precision = tile::InputPrecision::IEEE;
  std::string text = one(large, 80, 4, MatrixUnit::Fma);
  EXPECT_EQ(count(text, "fma.rn.f32"), 2048u); // the rest in rounds
  assemble(text, 80);
  for (auto [m, n, k] : {std::tuple(1, 1, 8), {16, 16, 8}, {3, 100, 5}, {12, 7, 16}}) {
    SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k);
    assemble(one(facts({m, n}, k, f16, f32), 90, 4, MatrixUnit::Fma), 90);
    assemble(one(facts({m, n}, k, f16, f16), 90, 4, MatrixUnit::Fma), 90);
    assemble(one(facts({m, n}, k, b.getI8Type(), b.getI32Type()), 90, 4, MatrixUnit::Fma), 90);
  }
  assemble(one(facts({16, 16}, 2, f64, f64), 90, 4, MatrixUnit::Fma), 90);
  assemble(one(facts({2, 16, 16}, 8, f16, f32), 90, 4, MatrixUnit::Fma), 90);
}

} // namespace
