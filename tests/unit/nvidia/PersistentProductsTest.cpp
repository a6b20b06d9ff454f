// Products of one tile a program that become a loop over programs (persistent-products), through
// all GPU passes and the emitter, on simulated threads and a simulated copy engine.
#include "DividedKernel.h"

#include "ir/ngpu/Dialect.h"

#include "gtest/gtest.h"

using namespace mlir;

namespace nereid::test {
namespace {

/// Where results go: through a descriptor, through pointers, or onto the rows of the first operand.
enum class Out { Descriptor, Pointers, InPlace };

/// out[rows, 64] = x[rows, k] y[k, 64], `blockM` rows a program.
struct Problem {
  Out out = Out::Descriptor;
  unsigned programs = 5, blocks = 2;
  bool given = true; ///< the launcher passes the number of programs
  int k = 192, blockM = 64, warps = 4, stages = 3;
  gpu::PersistentProducts persistent = gpu::PersistentProducts::Always;
};

constexpr int kCols = 64;

std::string textOf(const Problem &p) {
  std::string store = "tile.desc_store %c [%row, %c0], %narrow : !tile.desc<C>, tensor<C>\n";
  if (p.out == Out::Pointers)
    store = R"(
  %numbers = tile.range 0 to ELEMENTS : tensor<ELEMENTSxi32>
  %start = arith.muli %row, %cols : i32
  %from = tile.addptr %z, %start : !tile.ptr<f16>, i32
  %flat = tile.splat %from : !tile.ptr<f16> -> tensor<ELEMENTSx!tile.ptr<f16>>
  %places = tile.addptr %flat, %numbers : tensor<ELEMENTSx!tile.ptr<f16>>, tensor<ELEMENTSxi32>
  %square = tile.reshape %places : tensor<ELEMENTSx!tile.ptr<f16>> -> tensor<ROWSxCOLSx!tile.ptr<f16>>
  tile.store %square, %narrow : tensor<ROWSxCOLSx!tile.ptr<f16>>, tensor<C>
)";
  return replaced(R"(
func.func @k(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"},
             %y: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "y"},
             %z: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "z"},
             %rows: i32, %kk: i32, %stride: i64 {tile.divisibility = 8 : i64})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %rowsOfTile = arith.constant ROWS : i32
  %cols = arith.constant COLS : i32
  %colStride = arith.constant COLS : i64
  %zero = arith.constant dense<0.0> : tensor<S>
  %a = tile.make_descriptor %x [%rows, %kk] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<A>
  %b = tile.make_descriptor %y [%kk, %cols] strides [%colStride] copy_engine : !tile.ptr<f16> -> !tile.desc<B>
  %c = tile.make_descriptor OUT [%rows, %cols] strides [OUTSTRIDE] copy_engine : !tile.ptr<f16> -> !tile.desc<C>
  %program = tile.program_id 0
  %last = tile.num_programs 0
  %one = arith.constant 1 : i32
  %end = arith.subi %last, %one : i32
  %tile = arith.subi %end, %program : i32
  %row = arith.muli %tile, %rowsOfTile : i32
  %sum = scf.for %k = %c0 to %kk step %c64 iter_args(%acc = %zero) -> (tensor<S>) : i32 {
    %0 = tile.desc_load %a [%row, %k] : !tile.desc<A> -> tensor<A>
    %1 = tile.desc_load %b [%k, %c0] : !tile.desc<B> -> tensor<B>
    %2 = tile.dot %0, %1, %acc : tensor<A>, tensor<B> -> tensor<S>
    scf.yield %2 : tensor<S>
  }
  %narrow = arith.truncf %sum : tensor<S> to tensor<C>
)" + store + "  return\n}\n",
                  {{"OUTSTRIDE", p.out == Out::InPlace ? "%stride" : "%colStride"},
                   {"OUT", p.out == Out::InPlace ? "%x" : "%z"},
                   {"<A>", "<ROWSx64xf16>"},
                   {"<B>", "<64xCOLSxf16>"},
                   {"<C>", "<ROWSxCOLSxf16>"},
                   {"<S>", "<ROWSxCOLSxf32>"},
                   {"ELEMENTS", std::to_string(p.blockM * kCols)},
                   {"ROWS", std::to_string(p.blockM)},
                   {"COLS", std::to_string(kCols)}});
}

struct Outcome : DividedOutcome {
  unsigned wrong = 0;
};

/// `change`: what is done to the kernel before it is emitted.
Outcome run(const Problem &p, llvm::function_ref<void(func::FuncOp)> change = nullptr) {
  gpu::GpuOptions options;
  options.numWarps = p.warps;
  options.numStages = p.stages;
  options.persistentProducts = p.persistent;
  options.verify = true;
  int rows = p.blockM * p.programs, stride = p.k;
  std::vector<uint16_t> x(rows * stride), y(p.k * kCols), z(rows * kCols, 0xffff), expected = z;
  auto small = [](size_t i, int by) { return float(int(i * by % 5) - 2); };
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = halfOf(small(i, 3));
  for (size_t i = 0; i < y.size(); ++i)
    y[i] = halfOf(small(i, 2));
  for (int m = 0; m < rows; ++m)
    for (int n = 0; n < kCols; ++n) {
      float sum = 0;
      for (int k = 0; k < p.k; ++k)
        sum += small(m * stride + k, 3) * small(k * kCols + n, 2);
      expected[m * kCols + n] = halfOf(sum);
    }
  WarpSimulator::Words words = {reinterpret_cast<uint64_t>(x.data()),
                                reinterpret_cast<uint64_t>(y.data()),
                                reinterpret_cast<uint64_t>(z.data()),
                                uint64_t(rows),
                                uint64_t(p.k),
                                uint64_t(stride)};
  Outcome outcome;
  SimulatedLaunch launch;
  launch.programs = p.blocks;
  launch.given = p.given ? p.programs : 0;
  for (launch.program = 0; launch.program < p.blocks && outcome.error.empty(); ++launch.program)
    static_cast<DividedOutcome &>(outcome) = runDivided(textOf(p), options, words, change, launch);
  for (int m = 0; m < rows; ++m)
    for (int n = 0; n < kCols; ++n)
      outcome.wrong +=
          (p.out == Out::InPlace ? x[m * stride + n] : z[m * kCols + n]) != expected[m * kCols + n];
  return outcome;
}

void expectRight(const Problem &p) {
  SCOPED_TRACE("programs " + std::to_string(p.programs) + " blocks " + std::to_string(p.blocks) +
               " k " + std::to_string(p.k) + " warps " + std::to_string(p.warps));
  Outcome outcome = run(p);
  EXPECT_EQ(outcome.error, "");
  EXPECT_TRUE(outcome.divided && outcome.persistent);
  EXPECT_EQ(outcome.wrong, 0u);
}

TEST(PersistentProducts, AnyNumberOfBlocks) {
  for (unsigned blocks : {1, 2, 5})
    expectRight({Out::Descriptor, 5, blocks});
}

TEST(PersistentProducts, AnyNumberOfTrips) {
  for (int k : {64, 128, 320})
    expectRight({Out::Descriptor, 3, 1, true, k});
}

TEST(PersistentProducts, GroupsStoreUnderTheNextProgram) {
  expectRight({Out::Descriptor, 3, 2, true, 128, 128, 8, 2});
}

TEST(PersistentProducts, ResultsThroughPointers) {
  expectRight({Out::Pointers, 3, 2});
}

// A launcher that does not know of such kernels starts a block for each program.
TEST(PersistentProducts, ABlockForEachProgram) {
  expectRight({Out::Descriptor, 3, 3, false});
}

// The next program's blocks are of other rows, whatever this one has written.
TEST(PersistentProducts, ResultsOverAnOperand) {
  expectRight({Out::InPlace, 3, 1, true, 64});
}

TEST(PersistentProducts, NotUnlessAsked) {
  Problem p{Out::Descriptor, 3, 3, false};
  p.persistent = gpu::PersistentProducts::Never;
  Outcome outcome = run(p);
  EXPECT_EQ(outcome.error, "");
  EXPECT_FALSE(outcome.persistent || outcome.divided);
  EXPECT_EQ(outcome.wrong, 0u);
}

// The next program's results are written to the buffer that the store before it still reads.
TEST(PersistentProducts, WritingBeforeTheStoreIsWaitedForIsFound) {
  Outcome outcome = run({Out::Descriptor, 3, 1}, [](func::FuncOp kernel) {
    kernel.walk([](ngpu::TmaStoreWaitOp wait) {
      if (wait->getParentOfType<scf::ForOp>())
        wait.erase();
    });
  });
  EXPECT_TRUE(!outcome.error.empty() || outcome.wrong);
}

} // namespace
} // namespace nereid::test
