#include "targets/PassTimes.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/PassInstrumentation.h"
#include "llvm/IR/PassTimingInfo.h"
#include "llvm/Pass.h"
#include "llvm/Support/Timer.h"

#include <chrono>

namespace nereid::targets {

using SteadyClock = std::chrono::steady_clock;

static double since(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::milli>(SteadyClock::now() - start).count();
}

void addTime(std::vector<StageTime> &times, llvm::StringRef name, double ms) {
  auto found = llvm::find_if(times, [&](const StageTime &time) { return time.name == name; });
  if (found == times.end())
    times.push_back({name.str(), ms});
  else
    found->ms += ms;
}

namespace {

class MlirTimes final : public mlir::PassInstrumentation {
public:
  explicit MlirTimes(std::vector<StageTime> &times) : times(times) {}
  void runBeforePass(mlir::Pass *, mlir::Operation *) override {
    starts.push_back(SteadyClock::now());
  }
  void runAfterPass(mlir::Pass *pass, mlir::Operation *) override { end(pass); }
  void runAfterPassFailed(mlir::Pass *pass, mlir::Operation *) override { end(pass); }

private:
  void end(mlir::Pass *pass) {
    double took = since(starts.pop_back_val());
    // Passes that only run others have no command-line name.
    if (!pass->getArgument().empty())
      addTime(times, pass->getArgument(), took);
  }

  std::vector<StageTime> &times;
  llvm::SmallVector<SteadyClock::time_point> starts;
};

/// Whether a pass of LLVM's optimiser only runs others.
bool runsOthers(llvm::StringRef name) {
  return name.contains("PassManager") || name.contains("PassAdaptor");
}

} // namespace

std::unique_ptr<mlir::PassInstrumentation> timeMlirPasses(std::vector<StageTime> &times) {
  return std::make_unique<MlirTimes>(times);
}

void timeLlvmPasses(llvm::PassInstrumentationCallbacks &callbacks, std::vector<StageTime> &times) {
  auto starts = std::make_shared<llvm::SmallVector<SteadyClock::time_point>>();
  auto end = [starts, &times](llvm::StringRef name) {
    double took = since(starts->pop_back_val());
    if (!runsOthers(name))
      addTime(times, ("LLVM: " + name).str(), took);
  };
  callbacks.registerBeforeNonSkippedPassCallback(
      [starts](llvm::StringRef, llvm::Any) { starts->push_back(SteadyClock::now()); });
  callbacks.registerAfterPassCallback(
      [end](llvm::StringRef name, llvm::Any, const llvm::PreservedAnalyses &) { end(name); });
  callbacks.registerAfterPassInvalidatedCallback(
      [end](llvm::StringRef name, const llvm::PreservedAnalyses &) { end(name); });
}

CodeGeneratorTimes::CodeGeneratorTimes(std::vector<StageTime> *times) : times(times) {
  if (times)
    llvm::TimePassesIsEnabled = true;
}

CodeGeneratorTimes::~CodeGeneratorTimes() {
  if (!times)
    return;
  llvm::TimePassesIsEnabled = false;
  // Lines of the form `"time.pass.NAME.wall": SECONDS,`.
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::TimerGroup::printAllJSONValues(out, "");
  llvm::reportAndResetTimings(&llvm::nulls());
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(text).split(lines, '\n');
  for (llvm::StringRef line : lines) {
    auto [key, value] = line.trim().rtrim(',').rsplit(':');
    key = key.trim("\" \t");
    double seconds = 0;
    if (key.consume_front("time.pass.") && key.consume_back(".wall") &&
        !value.trim().getAsDouble(seconds))
      addTime(*times, ("code generator: " + key).str(), seconds * 1000);
  }
}

} // namespace nereid::targets
