// Products of blocks that are loaded through plain pointers, through the tile passes that make
// descriptors of them, all GPU passes and the emitter, on simulated threads and a simulated copy
// engine. The launcher's part (which maps it makes) is repeated here.
#include "CopyEngine.h"
#include "DividedKernel.h"
#include "WarpSimulator.h"

#include "gpu/pipeline/Pipeline.h"
#include "gpu/schedule/PartitionWarps.h"
#include "ir/ngpu/Dialect.h"
#include "targets/nvidia/emit/Emitter.h"
#include "transforms/Pipeline.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Verifier.h"
#include "gtest/gtest.h"

#include <random>

using namespace mlir;

namespace nereid::test {
namespace {

constexpr int side = 64; ///< of all blocks

/// What rows of A and columns of B do at the end of their tensor.
enum class Edge {
  Wrap,   ///< `% M`, and the store is masked
  Open,   ///< `% M`, and the store is not masked
  Where,  ///< `where(rows < M, rows, 0)`, and the store is masked
  Mask,   ///< the load is masked
  Ignore, ///< nothing: the tensor is as large as the blocks
};

/// One block of out = a b by one program: `tileM`, `tileN`. A is M x K, B is K x N; a transposed
/// one lies the other way round.
struct Problem {
  int m = 64, n = 64, k = 192, tileM = 0, tileN = 0;
  bool transA = false, transB = false;
  Edge edge = Edge::Wrap;
  bool maskK = true;
  bool stepLoop = false;    ///< `for k in range(0, K, 64)` instead of `range(cdiv(K, 64))`
  bool storeInLoop = false; ///< each turn stores the sum so far
  bool persistent = false;  ///< a loop over tileM + 1 blocks of rows around all
  int stages = 3;
  int strideA = 0, strideB = 0;   ///< 0: the next multiple of 8
  int shiftA = 0;                 ///< elements by which A is not aligned
  int firstA = 0;                 ///< elements in front of what the pointer of A points to
  int batch = 0, strideBatch = 8; ///< A is one of several, so many elements apart
  bool batchOfProgram = true;     ///< the launcher does not know which one
};

struct Outcome {
  std::string error;
  unsigned copies = 0, wrong = 0, maps = 0;
  bool divided = false;
  std::string text = {};
};

int strideOf(int given, int length) {
  return given ? given : (length + 7) / 8 * 8;
}

/// `%offsets` along one dimension of an operand: a start, and what happens at the end.
std::string edgeText(const Problem &p, const std::string &name, const std::string &start,
                     const std::string &bound) {
  std::string text = R"(
  %NAMEs = tile.splat %START : i32 -> tensor<64xi32>
  %NAMEx = arith.addi %NAMEs, %range : tensor<64xi32>
  %NAMEb = tile.splat %BOUND : i32 -> tensor<64xi32>
  %NAMEin = arith.cmpi slt, %NAMEx, %NAMEb : tensor<64xi32>
)";
  if (p.edge == Edge::Wrap || p.edge == Edge::Open)
    text += "  %NAMEo = arith.remsi %NAMEx, %NAMEb : tensor<64xi32>\n";
  else if (p.edge == Edge::Where)
    text += "  %NAMEo = arith.select %NAMEin, %NAMEx, %zeros : tensor<64xi1>, tensor<64xi32>\n";
  else
    text += "  %NAMEo = arith.addi %NAMEx, %zeros : tensor<64xi32>\n";
  return replaced(text, {{"NAME", name}, {"START", start}, {"BOUND", bound}});
}

/// Pointers `%NAMEp` of an operand whose outer index (not K) is its dimension `outer`.
std::string operandText(const std::string &name, const std::string &argument, unsigned outer,
                        bool outerIsContiguous) {
  std::string outerStride = outerIsContiguous ? "" : R"(
  %NAMEst = tile.splat %strideNAME : i32 -> tensor<64xi32>
  %NAMEl = arith.muli %NAMEo, %NAMEst : tensor<64xi32>
  %NAMEm = arith.addi %range, %zeros : tensor<64xi32>)";
  if (outerIsContiguous)
    outerStride = R"(
  %NAMEst = tile.splat %strideNAME : i32 -> tensor<64xi32>
  %NAMEm = arith.muli %range, %NAMEst : tensor<64xi32>
  %NAMEl = arith.addi %NAMEo, %zeros : tensor<64xi32>)";
  std::string text = outerStride + R"(
  %NAMEe = tile.expand_dims %NAMEl INNER : tensor<64xi32> -> tensor<ROWSxi32>
  %NAMEf = tile.expand_dims %NAMEm OUTER : tensor<64xi32> -> tensor<COLSxi32>
  %NAMEg = tile.broadcast %NAMEe : tensor<ROWSxi32> -> tensor<64x64xi32>
  %NAMEh = tile.broadcast %NAMEf : tensor<COLSxi32> -> tensor<64x64xi32>
  %NAMEi = arith.addi %NAMEg, %NAMEh : tensor<64x64xi32>
  %NAMEq = tile.splat %ARG : !tile.ptr<f16> -> tensor<64x64x!tile.ptr<f16>>
  %NAMEp = tile.addptr %NAMEq, %NAMEi : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
)";
  return replaced(text, {{"NAME", name},
                         {"ARG", argument},
                         {"ROWS", outer == 0 ? "64x1" : "1x64"},
                         {"COLS", outer == 0 ? "1x64" : "64x1"},
                         {"INNER", outer == 0 ? "1" : "0"},
                         {"OUTER", outer == 0 ? "0" : "1"}});
}

/// Mask `%NAMEmask` of a load, of the part along K and the part along its outer dimension.
std::string maskText(const Problem &p, const std::string &name, unsigned outer) {
  std::string text = "  %NAMEmask = arith.constant dense<true> : tensor<64x64xi1>\n";
  if (p.maskK)
    text = R"(
  %NAMEke = tile.expand_dims %inK OUTER : tensor<64xi1> -> tensor<COLSxi1>
  %NAMEmask = tile.broadcast %NAMEke : tensor<COLSxi1> -> tensor<64x64xi1>
)";
  if (p.edge == Edge::Mask)
    text = replaced(text, {{"%NAMEmask", "%NAMEkm"}}) + R"(
  %NAMEie = tile.expand_dims %NAMEin INNER : tensor<64xi1> -> tensor<ROWSxi1>
  %NAMEib = tile.broadcast %NAMEie : tensor<ROWSxi1> -> tensor<64x64xi1>
  %NAMEmask = arith.andi %NAMEkm, %NAMEib : tensor<64x64xi1>
)";
  return replaced(text, {{"NAME", name},
                         {"ROWS", outer == 0 ? "64x1" : "1x64"},
                         {"COLS", outer == 0 ? "1x64" : "64x1"},
                         {"INNER", outer == 0 ? "1" : "0"},
                         {"OUTER", outer == 0 ? "0" : "1"}});
}

std::string textOf(const Problem &p) {
  std::string stepA =
      p.transA ? "%stepA = arith.muli %strideA, %c64 : i32" : "%stepA = arith.addi %c64, %c0 : i32";
  std::string stepB =
      p.transB ? "%stepB = arith.addi %c64, %c0 : i32" : "%stepB = arith.muli %strideB, %c64 : i32";
  std::string store = R"(
  %ze = tile.expand_dims %zm 1 : tensor<64xi32> -> tensor<64x1xi32>
  %zf = tile.expand_dims %nx 0 : tensor<64xi32> -> tensor<1x64xi32>
  %zg = tile.broadcast %ze : tensor<64x1xi32> -> tensor<64x64xi32>
  %zh = tile.broadcast %zf : tensor<1x64xi32> -> tensor<64x64xi32>
  %zi = arith.addi %zg, %zh : tensor<64x64xi32>
  %zq = tile.splat %z : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %zp = tile.addptr %zq, %zi : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  %ie = tile.expand_dims %min 1 : tensor<64xi1> -> tensor<64x1xi1>
  %je = tile.expand_dims %nin 0 : tensor<64xi1> -> tensor<1x64xi1>
  %ib = tile.broadcast %ie : tensor<64x1xi1> -> tensor<64x64xi1>
  %jb = tile.broadcast %je : tensor<1x64xi1> -> tensor<64x64xi1>
  %both = arith.andi %ib, %jb : tensor<64x64xi1>
)";
  bool masked = p.edge == Edge::Wrap || p.edge == Edge::Where || p.edge == Edge::Mask;
  std::string stored =
      masked ? "  tile.store %zp, VALUE mask %both : tensor<64x64x!tile.ptr<f32>>, "
               "tensor<64x64xf32>, mask tensor<64x64xi1>\n"
             : "  tile.store %zp, VALUE : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>\n";
  std::string text = R"(
func.func @k(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"},
             %y: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "y"},
             %z: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "z"},
             %M: i32, %N: i32, %K: i32, %strideA: i32, %strideB: i32, %pm: i32, %pn: i32, %width: i32,
             %batch: i32, %strideBatch: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c63 = arith.constant 63 : i32
  %zeros = arith.constant dense<0> : tensor<64xi32>
  %none = arith.constant dense<0.0> : tensor<64x64xf16>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %range = tile.range 0 to 64 : tensor<64xi32>
  %which = arith.maxsi %batch, %least : i32
  %far = arith.muli %which, %strideBatch : i32
  %xb = tile.addptr %x, %far : !tile.ptr<f16>, i32
OPEN
  %startM = arith.muli %tile, %c64 : i32
  %startN = arith.muli %pn, %c64 : i32
)" + edgeText(p, "m", "startM", "M") +
                     edgeText(p, "n", "startN", "N") +
                     operandText("A", p.batch ? "xb" : "x", 0, p.transA) +
                     operandText("B", "y", 1, !p.transB) + R"(
  %zw = tile.splat %width : i32 -> tensor<64xi32>
  %zm = arith.muli %mx, %zw : tensor<64xi32>
)" + store + "  " + stepA +
                     "\n  " + stepB + R"(
  %stepsA = tile.splat %stepA : i32 -> tensor<64x64xi32>
  %stepsB = tile.splat %stepB : i32 -> tensor<64x64xi32>
  %up = arith.addi %K, %c63 : i32
  %count = arith.divsi %up, %c64 : i32
  %sum:3 = scf.for %i = %c0 to %END step %STEP iter_args(%acc = %zero, %pa = %Ap, %pb = %Bp) -> (tensor<64x64xf32>, tensor<64x64x!tile.ptr<f16>>, tensor<64x64x!tile.ptr<f16>>) : i32 {
  %done = arith.muli %i, %UNIT : i32
  %rest = arith.subi %K, %done : i32
  %rests = tile.splat %rest : i32 -> tensor<64xi32>
  %inK = arith.cmpi slt, %range, %rests : tensor<64xi32>
)" + maskText(p, "A", 0) +
                     maskText(p, "B", 1) + R"(
  %a = tile.load %pa mask %Amask other %none : tensor<64x64x!tile.ptr<f16>>, mask tensor<64x64xi1>, other tensor<64x64xf16> -> tensor<64x64xf16>
  %b = tile.load %pb mask %Bmask other %none : tensor<64x64x!tile.ptr<f16>>, mask tensor<64x64xi1>, other tensor<64x64xf16> -> tensor<64x64xf16>
  %d = tile.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
INLOOP
  %nextA = tile.addptr %pa, %stepsA : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
  %nextB = tile.addptr %pb, %stepsB : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
  scf.yield %d, %nextA, %nextB : tensor<64x64xf32>, tensor<64x64x!tile.ptr<f16>>, tensor<64x64x!tile.ptr<f16>>
  }
)" + replaced(stored, {{"VALUE", "%sum#0"}}) +
                     "CLOSE\n  return\n}\n";
  // The names of the edges' values differ from those of the operands.
  return replaced(
      text,
      {{"%Ao", "%mo"},
       {"%Bo", "%no"},
       {"%Ain", "%min"},
       {"%Bin", "%nin"},
       {"%which = arith.maxsi %batch, %least : i32",
        p.batchOfProgram ? "%which = arith.maxsi %batch, %c0 : i32" : ""},
       {"%which", p.batchOfProgram ? "%which" : "%batch"},
       {"OPEN",
        p.persistent
            ? "%tiles = arith.addi %pm, %c1 : i32\nscf.for %tile = %c0 to %tiles step %c1 : i32 {"
            : ""},
       {"CLOSE", p.persistent ? "}" : ""},
       {"%tile,", p.persistent ? "%tile," : "%pm,"},
       {"%END", p.stepLoop ? "%K" : "%count"},
       {"%STEP", p.stepLoop ? "%c64" : "%c1"},
       {"%UNIT", p.stepLoop ? "%c1" : "%c64"},
       {"INLOOP", p.storeInLoop ? replaced(stored, {{"VALUE", "%d"}}) : ""}});
}

/// As the launcher decides it.
bool isDescribable(const SimulatedMap &map) {
  bool fine = map.base % 16 == 0;
  for (unsigned d = 0; d < map.rank; ++d)
    fine &= map.sizes[d] >= 1 && map.sizes[d] <= INT32_MAX &&
            (d == 0 || (map.strides[d] >= 16 && map.strides[d] % 16 == 0));
  return fine;
}

struct Operands {
  std::vector<uint16_t> x, y;
  std::vector<float> z, expected;
  int width = 0, strideA = 0, strideB = 0;
  size_t firstZ = 0; ///< elements in front of what the pointer of the result points to
};

float numberAt(int64_t i, int by) {
  return float((i * by % 7 + 7) % 7 - 3);
}

/// Memory, and what the kernel should make of it.
Operands operandsOf(const Problem &p) {
  Operands o;
  o.strideA = strideOf(p.strideA, p.transA ? std::max(p.m, (p.tileM + 1) * side)
                                           : (p.k + side - 1) / side * side);
  o.strideB = strideOf(p.strideB, p.transB ? (p.k + side - 1) / side * side
                                           : std::max(p.n, (p.tileN + 1) * side));
  int rows = (std::max(p.m, (std::clamp(p.tileM, 0, 8) + 1) * side) + side - 1) / side * side;
  int columns = (std::max(p.n, (p.tileN + 1) * side) + side - 1) / side * side;
  int depth = (p.k + side) / side * side + side;
  o.x.resize(size_t(p.batch) * p.strideBatch + p.firstA +
             size_t(p.transA ? depth : rows) * o.strideA + 8 * side);
  o.y.resize(size_t(p.transB ? columns : depth) * o.strideB + 8 * side);
  for (size_t i = 0; i < o.x.size(); ++i)
    o.x[i] = halfOf(numberAt(int64_t(i) - p.firstA - p.shiftA, 5));
  for (size_t i = 0; i < o.y.size(); ++i)
    o.y[i] = halfOf(numberAt(int64_t(i), 3));
  o.width = columns;
  o.firstZ = p.tileM < 0 ? size_t(side) * columns : 0;
  o.z.assign(o.firstZ + size_t(rows) * columns, -1);
  o.expected = o.z;
  auto at = [&](int start, int i, int bound) {
    int x = int(uint32_t(start) + uint32_t(i));
    if (p.edge == Edge::Wrap || p.edge == Edge::Open)
      return x % bound;
    return p.edge == Edge::Where && x >= bound ? 0 : x;
  };
  int startN = int(uint32_t(p.tileN) * side);
  bool masked = p.edge == Edge::Wrap || p.edge == Edge::Where || p.edge == Edge::Mask;
  int depthRead = p.maskK ? p.k : (p.k + side - 1) / side * side;
  for (int tile = p.persistent ? 0 : p.tileM; tile <= p.tileM; ++tile)
    for (int i = 0; i < side; ++i)
      for (int j = 0; j < side; ++j) {
        int startM = int(uint32_t(tile) * side);
        int m = at(startM, i, p.m), n = at(startN, j, p.n);
        if (masked && (startM + i >= p.m || startN + j >= p.n))
          continue;
        float sum = 0;
        for (int k = 0; k < depthRead; ++k) {
          // Offsets wrap as 32-bit numbers do.
          int32_t row = int32_t(uint32_t(m) * uint32_t(p.transA ? 1 : o.strideA));
          int32_t inA = p.transA ? row + (k % side) * o.strideA : int32_t(uint32_t(row) + k % side);
          int64_t a = inA + int64_t(k / side) * side * (p.transA ? o.strideA : 1);
          int64_t b = p.transB ? int64_t(n) * o.strideB + k : int64_t(k) * o.strideB + n;
          a += int64_t(p.batch) * p.strideBatch;
          sum += numberAt(a, 5) * numberAt(b, 3);
        }
        int64_t to = int32_t(uint32_t(startM + i) * uint32_t(o.width)) + startN + j;
        o.expected[size_t(to + int64_t(o.firstZ))] = sum;
      }
  return o;
}

Outcome run(const Problem &p, gpu::Specialise specialise = gpu::Specialise::Never,
            bool copies = true) {
  Outcome outcome;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ngpu::loadDialects(context);
  auto module = parseSourceString<ModuleOp>(textOf(p), &context);
  if (!module)
    return {"cannot parse"};
  PassManager passes(&context);
  transforms::TilePipelineOptions tile;
  tile.tensorCopies = true;
  tile.copiesFromPointers = copies;
  transforms::buildTilePipeline(passes, tile);
  if (failed(passes.run(*module)))
    return {"the tile passes fail"};
  llvm::raw_string_ostream(outcome.text) << *module;
  gpu::GpuOptions options;
  options.numStages = p.stages;
  options.specialise = specialise;
  options.verify = true;
  auto report = gpu::runGpuPipeline(*module, options);
  if (!report)
    return {llvm::toString(report.takeError())};
  auto kernel = *module->getOps<func::FuncOp>().begin();
  outcome.divided = bool(ngpu::warpSpecializeOf(kernel));
  nvidia::EmitOptions emit;
  emit.lineInfo = false;
  llvm::LLVMContext llvmContext;
  auto emitted = nvidia::emitKernel(kernel, emit, llvmContext);
  if (!emitted)
    return {llvm::toString(emitted.takeError())};
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  if (llvm::verifyModule(*emitted->module, &stream))
    return {"invalid LLVM IR: " + problems};

  Operands o = operandsOf(p);
  auto bits = [](int value) { return uint64_t(uint32_t(value)); };
  WarpSimulator::Words words = {reinterpret_cast<uint64_t>(o.x.data() + p.firstA + p.shiftA),
                                reinterpret_cast<uint64_t>(o.y.data()),
                                reinterpret_cast<uint64_t>(o.z.data() + o.firstZ),
                                bits(p.m),
                                bits(p.n),
                                bits(p.k),
                                bits(o.strideA),
                                bits(o.strideB),
                                bits(p.tileM),
                                bits(p.tileN),
                                bits(o.width),
                                bits(p.batch),
                                bits(p.strideBatch)};
  std::vector<SimulatedMap> maps;
  for (const gpu::TensorMapPlan &plan : report->tensorMaps) {
    SimulatedMap &map = maps.emplace_back();
    map.rank = plan.shape.size();
    map.swizzleBytes = plan.swizzleBytes;
    map.base = plan.base.evaluate(words.data());
    for (unsigned d = 0; d < map.rank; ++d) {
      map.sizes[d] = plan.shape[map.rank - 1 - d].evaluate(words.data());
      map.box[d] = plan.box[map.rank - 1 - d];
      map.strides[d] =
          plan.elementBytes * (d ? plan.strides[map.rank - 1 - d].evaluate(words.data()) : 1);
    }
    if (plan.optional && !isDescribable(map))
      map = {};
    outcome.maps += map.rank > 0;
  }
  words.insert(words.end(), 2, 0);
  for (SimulatedMap &map : maps)
    words.push_back(reinterpret_cast<uint64_t>(&map));
  WarpSimulator simulator(*emitted->module, emitted->warps, report->sharedBytes);
  outcome.error = simulator.run(emitted->entry, words);
  outcome.copies = simulator.copies;
  for (size_t i = 0; i < o.z.size(); ++i)
    outcome.wrong += !(o.z[i] == o.expected[i]);
  return outcome;
}

std::string nameOf(const Problem &p) {
  std::string text = {};
  llvm::raw_string_ostream(text) << "m " << p.m << " n " << p.n << " k " << p.k << " tile "
                                 << p.tileM << " " << p.tileN << " trans " << p.transA << p.transB
                                 << " edge " << int(p.edge) << " mask " << p.maskK << " loop "
                                 << p.stepLoop << " strides " << p.strideA << " " << p.strideB
                                 << " stages " << p.stages;
  return text;
}

/// `byEngine`: whether the copy engine brings the blocks.
void expectRight(const Problem &p, bool byEngine,
                 gpu::Specialise specialise = gpu::Specialise::Never) {
  SCOPED_TRACE(nameOf(p));
  Outcome outcome = run(p, specialise);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.wrong, 0u);
  EXPECT_EQ(outcome.copies > 0, byEngine) << outcome.text;
  EXPECT_EQ(outcome.divided, specialise == gpu::Specialise::Always) << outcome.text;
}

TEST(PlainCopies, WithoutAsBefore) {
  Outcome outcome = run({}, gpu::Specialise::Never, /*copies=*/false);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.wrong, 0u);
  EXPECT_EQ(outcome.copies, 0u);
  EXPECT_EQ(outcome.maps, 0u);
}

TEST(PlainCopies, AllOrders) {
  for (bool transA : {false, true})
    for (bool transB : {false, true})
      expectRight(
          {.m = 100, .n = 72, .k = 136, .tileM = 1, .tileN = 1, .transA = transA, .transB = transB},
          true);
}

TEST(PlainCopies, AnyNumberOfTurns) {
  for (int k : {1, 8, 64, 200})
    expectRight({.k = k}, true);
  expectRight({.k = 0}, false);
  expectRight({.k = 328, .stages = 1}, true);
}

TEST(PlainCopies, EdgesOfTheTensors) {
  for (Edge edge : {Edge::Wrap, Edge::Where, Edge::Mask})
    for (int tile : {0, 1})
      expectRight({.m = 72, .n = 88, .k = 72, .tileM = tile, .tileN = tile, .edge = edge}, true);
  expectRight({.m = 40, .n = 24, .edge = Edge::Mask}, true);
  expectRight({.edge = Edge::Ignore}, true);
  expectRight({.k = 128, .edge = Edge::Ignore, .maskK = false}, true);
  expectRight({.k = 200, .stepLoop = true}, true);
}

/// Which version runs is decided for each block; kernels that store in a loop around are not
/// divided.
TEST(PlainCopies, PersistentPrograms) {
  for (Edge edge : {Edge::Wrap, Edge::Where, Edge::Open}) {
    Problem p{.m = 150, .n = 64, .k = 136, .tileM = 2, .edge = edge, .persistent = true};
    expectRight(p, true);
    Outcome outcome = run(p, gpu::Specialise::Always);
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.wrong, 0u);
    EXPECT_FALSE(outcome.divided);
  }
  expectRight({.m = 150, .n = 64, .k = 136, .tileM = 2, .persistent = true, .strideA = 141}, false);
}

/// A dimension of the tensor along which the block has one element.
TEST(PlainCopies, Batches) {
  for (bool transA : {false, true})
    expectRight({.m = 72, .n = 40, .k = 136, .transA = transA, .batch = 2, .strideBatch = 20000},
                true);
  expectRight({.k = 136, .batch = 2, .strideBatch = 20000, .batchOfProgram = false}, true);
  expectRight({.batch = 1, .strideBatch = 20004}, false); // no multiple of 16 bytes
  expectRight({.batch = 1, .strideBatch = 20004, .batchOfProgram = false}, false);
  expectRight({.batch = 3, .strideBatch = 20000}, true, gpu::Specialise::Always);
}

/// The rows that begin anew are stored: the engine would bring zeros.
TEST(PlainCopies, RowsThatBeginAnewAndAreSeen) {
  expectRight({.m = 100, .n = 128, .tileM = 0, .edge = Edge::Open}, true);
  expectRight({.m = 100, .n = 128, .tileM = 1, .edge = Edge::Open}, false);
  expectRight({.m = 128, .n = 100, .tileN = 1, .edge = Edge::Open}, false);
}

TEST(PlainCopies, WhatTheEngineCannotDescribe) {
  expectRight({.k = 136, .strideA = 201}, false);
  expectRight({.k = 136, .strideB = 132}, false);
  expectRight({.shiftA = 1}, false);
}

/// A block in front of the tensor is outside of it for the engine.
TEST(PlainCopies, NegativeStarts) {
  Problem p{.m = 64, .tileM = -1, .edge = Edge::Ignore};
  p.firstA = 64 * 256;
  p.strideA = 200;
  expectRight(p, false);
}

/// Offsets that wrap at 32 bits read another place than a coordinate would.
TEST(PlainCopies, OffsetsThatWrap) {
  expectRight({.k = 64, .tileM = 1 << 24, .edge = Edge::Ignore, .strideA = 64}, false);
}

TEST(PlainCopies, StoresInTheLoop) {
  expectRight({.storeInLoop = true}, false);
}

TEST(PlainCopies, DividedWarps) {
  auto always = gpu::Specialise::Always;
  for (int k : {64, 200, 456})
    expectRight({.m = 100, .n = 72, .k = k, .tileM = 1}, true, always);
  expectRight({.m = 100, .n = 72, .transA = true, .transB = true}, true, always);
  // The other version runs on the consumers alone.
  expectRight({.m = 100, .n = 72, .k = 456, .strideA = 461}, false, always);
  expectRight({.m = 100, .n = 128, .tileM = 1, .edge = Edge::Open}, false, always);
}

TEST(PlainCopies, Random) {
  std::mt19937 random(17);
  auto below = [&](unsigned n) { return int(random() % n); };
  for (int i = 0; i < 24; ++i) {
    Problem p{.m = 1 + below(150), .n = 1 + below(150), .k = below(300)};
    p.tileM = below(unsigned(p.m - 1) / side + 1);
    p.tileN = below(unsigned(p.n - 1) / side + 1);
    p.transA = below(2);
    p.transB = below(2);
    p.edge = Edge(below(5));
    p.maskK = below(4) > 0;
    p.stepLoop = below(2);
    p.persistent = below(4) == 0;
    p.stages = 1 + below(4);
    if (below(4) == 0)
      p.strideA = 300 + below(16);
    if (below(4) == 0)
      p.strideB = 300 + below(16);
    SCOPED_TRACE(nameOf(p));
    auto specialise = below(3) ? gpu::Specialise::Never : gpu::Specialise::Always;
    Outcome outcome = run(p, specialise);
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.wrong, 0u) << outcome.text;
  }
}

} // namespace
} // namespace nereid::test
