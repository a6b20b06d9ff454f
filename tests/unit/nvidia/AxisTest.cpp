// Reductions and scans on the simulator, against the same in order on the host: any layout, any
// axis, combinations that do not commute, copies in lanes and warps, odd sizes.
#include "Simulated.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace nereid;
using namespace nereid::test;

namespace {

/// x → a·x + b, composed: associative, and far from commutative.
constexpr const char *kCompose = R"(
  ^bb0(%a: i32, %b: i32, %c: i32, %d: i32):
    %ac = arith.muli %a, %c : i32
    %ad = arith.muli %a, %d : i32
    %adb = arith.addi %ad, %b : i32
    tile.yield %ac, %adb : i32, i32
  }))";
constexpr const char *kAdd = R"(
  ^bb0(%a: i32, %b: i32):
    %s = arith.addi %a, %b : i32
    tile.yield %s : i32
  }))";

struct Pair {
  uint32_t a = 1, b = 0;
  Pair operator*(const Pair &right) const { return {a * right.a, a * right.b + b}; }
};
Pair element(uint64_t index) {
  return {uint32_t(noise(index, 32, 0)), uint32_t(noise(index, 32, 1))};
}

struct Case {
  llvm::SmallVector<int64_t, 3> shape;
  unsigned axis, warps;
  LinearLayout layout;
};

/// From this seed on there are so many warps that lanes share the partial results.
constexpr unsigned kManyWarps = 60;

Case randomCase(unsigned seed) {
  std::mt19937 random(seed);
  Case one;
  one.warps = seed < kManyWarps ? 1u << random() % 3 : 8u << random() % 3;
  for (unsigned rank = 1 + random() % 3; rank--;)
    one.shape.push_back(int64_t(1) << random() % 5);
  one.axis = random() % one.shape.size();
  if (seed % 6 == 0)
    one.shape[random() % one.shape.size()] *= 3;
  if (seed % 11 == 0)
    one.shape[one.axis] = 1;
  one.layout = randomLayout(random, one.shape, one.warps, seed % 3 == 0);
  return one;
}

/// Elements per step along the axis, and of the whole axis.
std::pair<int64_t, int64_t> strides(const Case &one) {
  int64_t inner = 1;
  for (unsigned dim = one.axis + 1; dim < one.shape.size(); ++dim)
    inner *= one.shape[dim];
  return {inner, inner * one.shape[one.axis]};
}

unsigned registersOf(llvm::ArrayRef<int64_t> shape, const LinearLayout &layout) {
  unsigned count = layout.size(Axis::Register);
  for (int64_t size : shape)
    count *= layout::repeatCount(size);
  return count;
}

struct Outcome {
  unsigned records = 0;
  std::string wrong;
};

WarpSimulator::External expecting(Outcome &outcome, std::function<Pair(uint64_t)> expected) {
  return [=, &outcome](unsigned thread, llvm::StringRef name,
                       const WarpSimulator::Words &arguments) -> uint64_t {
    if (name == "input_a" || name == "input_b") {
      Pair pair = element(arguments[0]);
      return name == "input_a" ? pair.a : pair.b;
    }
    ++outcome.records;
    Pair pair = expected(arguments[0]);
    uint64_t right = name == "record_a" ? pair.a : pair.b;
    if (arguments[1] != right && outcome.wrong.empty())
      outcome.wrong = llvm::formatv("{0} of thread {1}, element {2}: {3:x} instead of {4:x}", name,
                                    thread, arguments[0], arguments[1], right)
                          .str();
    return 0;
  };
}

SimulatedRun runReduce(const Case &one, bool compose, Outcome &outcome, unsigned blocks = 1,
                       Damage damage = {}, bool sends = false,
                       std::optional<unsigned> late = std::nullopt) {
  llvm::SmallVector<int64_t, 3> rest(one.shape);
  rest.erase(rest.begin() + one.axis);
  auto [inner, whole] = strides(one);
  std::string body = indices("i", one.shape, one.layout) +
                     input("x", "i", one.shape, "i32", one.layout, "input_a") +
                     input("y", "i", one.shape, "i32", one.layout, "input_b");
  std::string source = tensor(one.shape, "i32", one.layout);
  LinearLayout sliced = rest.empty() ? LinearLayout() : one.layout.sliced(one.axis);
  std::string result = rest.empty() ? "i32" : tensor(rest, "i32", sliced);
  body += compose ? "  %r, %s = \"tile.reduce\"(%x, %y)" : "  %s = \"tile.reduce\"(%y)";
  body += " <{axis = " + std::to_string(one.axis) + " : i32}> ({" + (compose ? kCompose : kAdd) +
          " : (" + source + (compose ? ", " + source : "") + ") -> " +
          (compose ? "(" + result + ", " + result + ")" : result) + "\n";
  if (rest.empty()) {
    body += "  %zero = arith.constant 0 : i32\n";
    for (std::string name : {"a", "b"})
      if (compose || name == "b")
        body += "  %out_" + name + " = tile.extern_elementwise \"record_" + name +
                "\" from \"test\"(%zero, %" + (name == "a" ? "r" : "s") + ") : (i32, i32) -> i32\n";
  } else {
    body += indices("j", rest, sliced);
    if (compose)
      body += record("j", "r", rest, "i32", sliced, "record_a");
    body += record("j", "s", rest, "i32", sliced, "record_b");
  }
  return simulate(
      body, one.warps,
      expecting(outcome,
                [=, one = one](uint64_t index) {
                  uint64_t base = index / inner * whole + index % inner;
                  Pair all;
                  for (int64_t k = 0; k < one.shape[one.axis]; ++k) {
                    Pair next = element(base + k * inner);
                    all = k == 0 ? next : compose ? all * next : Pair{0, all.b + next.b};
                  }
                  return all;
                }),
      90, 232448, blocks, damage, sends, late);
}

SimulatedRun runScan(const Case &one, bool reverse, Outcome &outcome, unsigned blocks = 1) {
  auto [inner, whole] = strides(one);
  std::string source = tensor(one.shape, "i32", one.layout);
  std::string body = indices("i", one.shape, one.layout) +
                     input("x", "i", one.shape, "i32", one.layout, "input_a") +
                     input("y", "i", one.shape, "i32", one.layout, "input_b") +
                     "  %r, %s = \"tile.scan\"(%x, %y) <{axis = " + std::to_string(one.axis) +
                     " : i32" + (reverse ? ", reverse" : "") + "}> ({" + kCompose + " : (" +
                     source + ", " + source + ") -> (" + source + ", " + source + ")\n" +
                     record("i", "r", one.shape, "i32", one.layout, "record_a") +
                     record("i", "s", one.shape, "i32", one.layout, "record_b");
  return simulate(body, one.warps,
                  expecting(outcome,
                            [=, one = one](uint64_t index) {
                              uint64_t base = index / whole * whole + index % inner;
                              int64_t at = index % whole / inner, size = one.shape[one.axis];
                              Pair all = element(base + (reverse ? size - 1 : 0) * inner);
                              if (reverse)
                                for (int64_t k = size - 2; k >= at; --k)
                                  all = all * element(base + k * inner);
                              else
                                for (int64_t k = 1; k <= at; ++k)
                                  all = all * element(base + k * inner);
                              return all;
                            }),
                  90, 232448, blocks);
}

TEST(Axis, ReductionsInOrder) {
  for (unsigned seed = 0; seed < kManyWarps + 30; ++seed) {
    Case one = randomCase(seed);
    for (bool compose : {true, false}) {
      Outcome outcome;
      SimulatedRun run = runReduce(one, compose, outcome);
      ASSERT_EQ(run.error, "") << "seed " << seed << " axis " << one.axis << "\n"
                               << one.layout.str();
      ASSERT_EQ(outcome.wrong, "") << "seed " << seed << " axis " << one.axis << "\n"
                                   << one.layout.str();
      llvm::SmallVector<int64_t, 3> rest(one.shape);
      rest.erase(rest.begin() + one.axis);
      unsigned registers = rest.empty() ? 1 : registersOf(rest, one.layout.sliced(one.axis));
      EXPECT_EQ(outcome.records, one.warps * 32 * registers * (compose ? 2 : 1));
      EXPECT_LE(run.barriers, 1u) << "seed " << seed;
    }
  }
}

TEST(Axis, ScansBothWays) {
  for (unsigned seed = 0; seed < kManyWarps; ++seed) {
    Case one = randomCase(seed);
    for (bool reverse : {false, true}) {
      Outcome outcome;
      SimulatedRun run = runScan(one, reverse, outcome);
      ASSERT_EQ(run.error, "") << "seed " << seed << " axis " << one.axis << "\n"
                               << one.layout.str();
      ASSERT_EQ(outcome.wrong, "")
          << "seed " << seed << " axis " << one.axis << " reverse " << reverse << "\n"
          << one.layout.str();
      EXPECT_EQ(outcome.records, one.warps * 64 * registersOf(one.shape, one.layout));
      EXPECT_LE(run.barriers, 1u) << "seed " << seed;
    }
  }
}

TEST(Axis, ReductionsAndScansOfClusters) {
  unsigned meeting = 0;
  for (unsigned seed = 0; seed < 2 * kManyWarps; ++seed) {
    Case one = randomCase(seed);
    unsigned blocks = seed % 2 ? 2 : 4;
    if (one.warps < blocks)
      continue;
    SCOPED_TRACE(llvm::formatv("seed {0} axis {1} {2}", seed, one.axis, one.layout.str()).str());
    for (bool compose : {true, false}) {
      Outcome reduced, scanned;
      SimulatedRun run = runReduce(one, compose, reduced, blocks);
      ASSERT_EQ(run.error, "");
      ASSERT_EQ(reduced.wrong, "");
      EXPECT_LE(run.meetings, 2u); // the start, and the exchange
      meeting += run.meetings == 2;
      run = runScan(one, compose, scanned, blocks);
      ASSERT_EQ(run.error, "");
      ASSERT_EQ(scanned.wrong, "");
      EXPECT_EQ(scanned.records, one.warps * 64 * registersOf(one.shape, one.layout));
      EXPECT_LE(run.meetings, 2u);
    }
  }
  EXPECT_GT(meeting, 20u);
}

TEST(Axis, ReductionsOfClustersSendPartialResults) {
  unsigned sending = 0;
  for (unsigned seed = 0; seed < 2 * kManyWarps; ++seed) {
    Case one = randomCase(seed);
    unsigned blocks = seed % 2 ? 2 : 4;
    if (one.warps < blocks)
      continue;
    SCOPED_TRACE(llvm::formatv("seed {0} axis {1} {2}", seed, one.axis, one.layout.str()).str());
    for (bool compose : {true, false}) {
      Outcome outcome;
      SimulatedRun run =
          runReduce(one, compose, outcome, blocks, {}, /*sends=*/true, seed % blocks);
      ASSERT_EQ(run.error, "");
      ASSERT_EQ(outcome.wrong, "");
      if (run.sent)
        EXPECT_EQ(run.meetings, 1u); // the start
      sending += run.sent > 0;
    }
  }
  EXPECT_GT(sending, 10u);
}

/// A row over 4 warps of 2 blocks.
Case rowOfTwoBlocks() {
  Case one;
  one.warps = 4;
  one.shape = {128};
  one.axis = 0;
  std::array<LinearLayout::Columns, layout::kAxes> columns;
  for (unsigned bit = 0; bit < 7; ++bit)
    columns[bit < 5 ? 1 : 2].push_back(uint64_t(1) << bit);
  one.layout = LinearLayout::fromFlat(one.shape, columns);
  return one;
}

/// What the simulator says of a reduction across two blocks whose code `damage` has changed.
std::string damaged(Damage damage, std::string &wrong) {
  Outcome outcome;
  SimulatedRun run = runReduce(rowOfTwoBlocks(), false, outcome, 2, damage);
  wrong = outcome.wrong;
  return run.error.substr(0, run.error.find('\n'));
}

/// Calls `each` for the calls of an intrinsic.
void forCalls(llvm::Module &module, llvm::Intrinsic::ID id,
              llvm::function_ref<void(llvm::CallInst &)> each) {
  for (llvm::Function &function : module)
    for (llvm::BasicBlock &block : function)
      for (llvm::Instruction &op : llvm::make_early_inc_range(block))
        if (auto *call = llvm::dyn_cast<llvm::CallInst>(&op); call && call->getIntrinsicID() == id)
          each(*call);
}

TEST(Axis, FaultsOfClustersAreFound) {
  using namespace llvm::Intrinsic;
  std::string wrong;
  EXPECT_EQ(damaged([](llvm::Module &) {}, wrong), "");
  EXPECT_EQ(wrong, "");
  // The exchange's barrier of the cluster is missing, both of its halves.
  auto dropLast = [](llvm::Module &module, llvm::Intrinsic::ID id) {
    llvm::CallInst *last = nullptr;
    forCalls(module, id, [&](llvm::CallInst &call) { last = &call; });
    last->eraseFromParent();
  };
  std::string said = damaged(
      [&](llvm::Module &module) {
        dropLast(module, nvvm_barrier_cluster_arrive_aligned);
        dropLast(module, nvvm_barrier_cluster_wait_aligned);
      },
      wrong);
  EXPECT_EQ(said.substr(0, 12), "race at byte") << said;
  // It does not order what was written before.
  said = damaged(
      [&](llvm::Module &module) {
        llvm::Function *relaxed = llvm::Intrinsic::getOrInsertDeclaration(
            &module, nvvm_barrier_cluster_arrive_relaxed_aligned);
        forCalls(module, nvvm_barrier_cluster_arrive_aligned,
                 [&](llvm::CallInst &call) { call.setCalledFunction(relaxed); });
      },
      wrong);
  EXPECT_EQ(said.substr(0, 12), "race at byte") << said;
  // The other block may not have started.
  said = damaged(
      [&](llvm::Module &module) {
        dropLast(module, nvvm_barrier_cluster_arrive_relaxed_aligned);
        bool first = true;
        forCalls(module, nvvm_barrier_cluster_wait_aligned, [&](llvm::CallInst &call) {
          if (std::exchange(first, false))
            call.eraseFromParent();
        });
      },
      wrong);
  EXPECT_NE(said.find("which may not have started"), std::string::npos) << said;
  // One half without the other.
  said = damaged(
      [&](llvm::Module &module) { dropLast(module, nvvm_barrier_cluster_arrive_aligned); }, wrong);
  EXPECT_NE(said.find("waits for the cluster without having arrived"), std::string::npos) << said;
  // The partial sums of the second block go to the first one only.
  said = damaged(
      [&](llvm::Module &module) {
        forCalls(module, nvvm_mapa_shared_cluster, [&](llvm::CallInst &call) {
          call.setArgOperand(1, llvm::ConstantInt::get(call.getArgOperand(1)->getType(), 0));
        });
      },
      wrong);
  EXPECT_TRUE(!said.empty() || !wrong.empty());
  said = damaged(
      [&](llvm::Module &module) {
        forCalls(module, nvvm_mapa_shared_cluster, [&](llvm::CallInst &call) {
          call.setArgOperand(1, llvm::ConstantInt::get(call.getArgOperand(1)->getType(), 2));
        });
      },
      wrong);
  EXPECT_EQ(said, "the cluster has no block 2");
  // A block reads the other one's memory at the end.
  said = damaged(
      [&](llvm::Module &module) {
        llvm::CallInst *place = nullptr, *wait = nullptr;
        forCalls(module, nvvm_mapa_shared_cluster, [&](llvm::CallInst &call) { place = &call; });
        forCalls(module, nvvm_barrier_cluster_wait_aligned,
                 [&](llvm::CallInst &call) { wait = &call; });
        auto *again = place->clone();
        again->insertAfter(wait->getIterator());
        auto *read = new llvm::LoadInst(llvm::Type::getInt32Ty(module.getContext()), again, "",
                                        /*isVolatile=*/true, llvm::Align(4));
        read->insertAfter(again->getIterator());
      },
      wrong);
  EXPECT_NE(said.find("may have ended when others reach its shared memory"), std::string::npos)
      << said;
}

/// Sums in a loop, each of which needs the one before: slots and mbarriers are used again.
SimulatedRun runSums(unsigned late, std::string &wrong, Damage damage = {}) {
  Case one = rowOfTwoBlocks();
  constexpr int kSums = 7;
  std::string type = tensor(one.shape, "i32", one.layout);
  std::string body = indices("i", one.shape, one.layout) +
                     input("x", "i", one.shape, "i32", one.layout, "input_b") +
                     "  %first = arith.constant 0 : i32\n  %last = arith.constant " +
                     std::to_string(kSums) + " : i32\n  %step = arith.constant 1 : i32\n" +
                     "  %all = scf.for %n = %first to %last step %step iter_args(%v = %x) -> (" +
                     type + ") : i32 {\n    %s = \"tile.reduce\"(%v) <{axis = 0 : i32}> ({" + kAdd +
                     " : (" + type + ") -> i32\n    %t = tile.splat %s : i32 -> " + type +
                     "\n    %w = arith.addi %v, %t : " + type + "\n    scf.yield %w : " + type +
                     "\n  }\n" + record("i", "all", one.shape, "i32", one.layout, "record_b");
  uint32_t added = 0, sum = 0;
  for (int64_t i = 0; i < one.shape[0]; ++i)
    sum += uint32_t(element(i).b);
  for (int i = 0; i < kSums; ++i) {
    added += sum;
    sum *= uint32_t(one.shape[0] + 1);
  }
  Outcome outcome;
  SimulatedRun run = simulate(body, one.warps,
                              expecting(outcome,
                                        [added](uint64_t index) {
                                          Pair pair = element(index);
                                          return Pair{0, uint32_t(pair.b) + added};
                                        }),
                              90, 232448, 2, damage, /*sends=*/true, late);
  EXPECT_TRUE(run.sent == 7 * 2 * 4 || !run.error.empty()) << run.sent;
  wrong = outcome.wrong;
  return run;
}

TEST(Axis, SlotsOfSentPartialResultsAreUsedAgain) {
  for (unsigned late : {0, 1}) {
    std::string wrong;
    EXPECT_EQ(runSums(late, wrong).error, "");
    EXPECT_EQ(wrong, "");
  }
}

TEST(Axis, FaultsOfSendingAreFound) {
  auto forOps = [](llvm::Module &module, auto each) {
    for (llvm::Function &function : module)
      for (llvm::BasicBlock &block : function)
        for (llvm::Instruction &op : llvm::make_early_inc_range(block))
          each(op);
  };
  auto textOf = [](llvm::Instruction &op) -> llvm::StringRef {
    auto *call = llvm::dyn_cast<llvm::CallInst>(&op);
    auto *code = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
    return code ? llvm::StringRef(code->getAsmString()) : "";
  };
  std::string wrong;
  // One slot and one mbarrier for all sums.
  SimulatedRun run = runSums(1, wrong, [&](llvm::Module &module) {
    forOps(module, [](llvm::Instruction &op) {
      auto *one = op.getOpcode() == llvm::Instruction::And
                      ? llvm::dyn_cast<llvm::ConstantInt>(op.getOperand(1))
                      : nullptr;
      if (!one || !one->isOne())
        return;
      if (llvm::isa<llvm::LoadInst>(op.getOperand(0)))
        op.replaceAllUsesWith(llvm::ConstantInt::get(op.getType(), 0));
      else if (auto *half = llvm::dyn_cast<llvm::BinaryOperator>(op.getOperand(0));
               half && half->getOpcode() == llvm::Instruction::LShr)
        op.setOperand(0, half->getOperand(0));
    });
  });
  EXPECT_TRUE(!run.error.empty() || !wrong.empty());
  // Nobody waits.
  run = runSums(1, wrong, [&](llvm::Module &module) {
    forOps(module, [&](llvm::Instruction &op) {
      if (textOf(op).contains("mbarrier.try_wait"))
        op.eraseFromParent();
    });
  });
  EXPECT_TRUE(!run.error.empty() || !wrong.empty());
  // Nobody says how much arrives.
  run = runSums(1, wrong, [&](llvm::Module &module) {
    forOps(module, [&](llvm::Instruction &op) {
      if (textOf(op).contains("expect_tx"))
        op.eraseFromParent();
    });
  });
  EXPECT_NE(run.error.find("deadlock"), std::string::npos) << run.error;
  // The other block may not have started.
  run = runSums(1, wrong, [&](llvm::Module &module) {
    for (auto id : {llvm::Intrinsic::nvvm_barrier_cluster_arrive_relaxed_aligned,
                    llvm::Intrinsic::nvvm_barrier_cluster_wait_aligned})
      forCalls(module, id, [](llvm::CallInst &call) { call.eraseFromParent(); });
  });
  EXPECT_NE(run.error.find("which may not have started"), std::string::npos) << run.error;
}

TEST(Axis, LanesShareThePartialResults) {
  // A row over all warps: every thread reads four sums of warps, and shuffles bring the others'.
  for (unsigned bits : {2, 3, 4, 5}) {
    Case one;
    one.warps = 1u << bits;
    one.shape = {32 * one.warps};
    one.axis = 0;
    std::array<LinearLayout::Columns, layout::kAxes> columns;
    for (unsigned bit = 0; bit < 5 + bits; ++bit)
      columns[bit < 5 ? 1 : 2].push_back(uint64_t(1) << bit);
    one.layout = LinearLayout::fromFlat(one.shape, columns);
    Outcome outcome;
    SimulatedRun run = runReduce(one, false, outcome);
    EXPECT_EQ(run.error, "");
    EXPECT_EQ(outcome.wrong, "");
    EXPECT_EQ(run.shuffles, one.warps * (1 + bits - 2));
    EXPECT_EQ(run.barriers, 1u);
    // In order, a thread reads all of them.
    Outcome inOrder;
    SimulatedRun composed = runReduce(one, true, inOrder);
    EXPECT_EQ(composed.error, "");
    EXPECT_EQ(inOrder.wrong, "");
    EXPECT_EQ(composed.shuffles, one.warps * 5 * 2);
  }
}

TEST(Axis, OneInstructionForAWarp) {
  // 32 lanes hold a row: i32 sums take one warp-wide instruction, not five.
  Case one;
  one.shape = {4, 128};
  one.axis = 1;
  one.warps = 4;
  std::array<LinearLayout::Columns, layout::kAxes> columns;
  columns[0] = {1, 2};
  columns[1] = {4, 8, 16, 32, 64};
  columns[2] = {128, 256};
  one.layout = LinearLayout::fromFlat(one.shape, columns);
  Outcome outcome;
  SimulatedRun run = runReduce(one, false, outcome);
  EXPECT_EQ(run.error, "");
  EXPECT_EQ(outcome.wrong, "");
  EXPECT_EQ(run.shuffles, 4u); // one a warp
  EXPECT_EQ(run.barriers, 0u);
  EXPECT_EQ(run.sharedBytes, 0u);
}

} // namespace
