#include "runtime/tuner/search.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <chrono>
#include <cmath>

using namespace nereid::runtime;

namespace {

/// Slower than the best by this factor at the first look: not looked at again.
constexpr double possible = 1.6;
/// ... at the better look: out. Looks differ by a few percent on a GPU, by more on a busy CPU.
constexpr double plausible = 1.2;
/// ... or by less than what the clock of a GPU's events resolves.
constexpr double resolution = 0.001;
/// What is measured in turns at the end: within this factor, at most so many, so often.
constexpr double nearby = 1.05;
constexpr size_t maxFinalists = 3;
constexpr size_t turns = 4;

double steadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double quantile(const std::vector<double> &sorted, double q) {
  double at = q * double(sorted.size() - 1);
  auto low = size_t(at);
  size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - double(low));
}

} // namespace

Timing nereid::runtime::summarise(std::vector<double> times) {
  llvm::sort(times);
  return {quantile(times, 0.5), quantile(times, 0.2), quantile(times, 0.8)};
}

Search::Search(Plan given)
    : plan(std::move(given)), step(plan.plain ? Step::Measure : Step::Look),
      candidates(plan.count) {
  if (!plan.now)
    plan.now = steadySeconds;
  start = plan.now();
}

void Search::ready(size_t config) {
  if (candidates[config].state == State::Waiting)
    candidates[config].state = State::Ready;
}

void Search::fail(size_t config) {
  candidates[config] = {};
  candidates[config].state = State::Failed;
}

double Search::elapsed() const {
  return plan.now() - start;
}

double Search::remaining() const {
  return std::max(plan.budget - elapsed(), 0.0);
}

std::optional<Timing> Search::timing(size_t config) const {
  const Candidate &candidate = candidates[config];
  if (candidate.state == State::Failed)
    return Timing();
  if (candidate.times().empty())
    return std::nullopt;
  return summarise(candidate.times());
}

std::vector<size_t> Search::byMedian(std::vector<size_t> configs) const {
  std::vector<double> medians(candidates.size());
  for (size_t config : configs)
    medians[config] = timing(config)->median;
  llvm::sort(configs, [&](size_t a, size_t b) {
    return std::pair(medians[a], a) < std::pair(medians[b], b);
  });
  return configs;
}

std::optional<size_t> Search::best() const {
  // Times of different steps are not compared: the later one was longer and quieter.
  std::vector<size_t> last;
  for (auto times : {&Candidate::compared, &Candidate::measured, &Candidate::looked}) {
    for (size_t i = 0; i < candidates.size(); ++i)
      if (candidates[i].state != State::Failed && !(candidates[i].*times).empty())
        last.push_back(i);
    // One that was compared alone has not been compared.
    if (last.size() > (times == &Candidate::compared ? 1 : 0))
      return byMedian(std::move(last)).front();
    last.clear();
  }
  return std::nullopt;
}

Search::Task Search::look() {
  double fastest = std::numeric_limits<double>::infinity();
  bool waits = false, begun = false;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate &candidate = candidates[i];
    waits |= candidate.state == State::Waiting;
    if (candidate.state == State::Ready && !candidate.times().empty()) {
      fastest = std::min(fastest, timing(i)->median);
      begun = true;
    }
  }
  bool over = begun && remaining() <= 0;
  for (size_t i = 0; i < candidates.size() && !over; ++i)
    if (candidates[i].state == State::Ready && candidates[i].times().empty())
      return plan.plain ? Task{Step::Measure, i, 0, 1, 1}
                        : Task{Step::Look, i, 4, 3, 25, 3 * fastest + resolution};
  if (waits && !over)
    return {Step::Wait};
  for (const Candidate &candidate : candidates)
    stopped |= candidate.state != State::Failed && candidate.times().empty();
  return {Step::Done};
}

std::vector<size_t> Search::lookedWithin(double factor) const {
  std::vector<size_t> looked;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (candidates[i].state == State::Ready && !candidates[i].looked.empty())
      looked.push_back(i);
  looked = byMedian(std::move(looked));
  if (looked.empty())
    return looked;
  double limit = timing(looked.front())->median * factor + resolution;
  llvm::erase_if(looked, [&](size_t config) { return timing(config)->low > limit; });
  return looked;
}

void Search::lookAgain() {
  queue = lookedWithin(possible);
  llvm::sort(queue, std::greater<>());
  if (queue.size() == 1)
    queue.clear();
  position = 0;
  again = true;
}

void Search::choosePlausible() {
  queue = lookedWithin(plausible);
  position = 0;
  again = false;
  queue.resize(std::min(queue.size(), std::max<size_t>(4, candidates.size() / 3)));
}

void Search::chooseFinalists() {
  std::vector<size_t> measured;
  for (size_t config : queue)
    if (candidates[config].state == State::Ready)
      measured.push_back(config);
  measured = byMedian(std::move(measured));
  queue.clear();
  position = 0;
  if (measured.empty())
    return;
  double limit = timing(measured.front())->median * nearby + resolution;
  llvm::erase_if(measured, [&](size_t config) { return timing(config)->median > limit; });
  measured.resize(std::min(measured.size(), maxFinalists));
  if (measured.size() < 2)
    return;
  for (size_t turn = 0; turn < turns; ++turn) {
    // Every other turn goes backwards, so that none is always the first after another.
    if (turn % 2)
      queue.insert(queue.end(), measured.rbegin(), measured.rend());
    else
      queue.insert(queue.end(), measured.begin(), measured.end());
  }
}

Search::Task Search::next() {
  if ((step == Step::Look && !again) || plan.plain) {
    Task task = look();
    if (plan.plain || task.step != Step::Done)
      return task;
    lookAgain();
  }
  while (step != Step::Done) {
    if (remaining() <= 0)
      break;
    for (; position < queue.size(); ++position)
      if (candidates[queue[position]].state == State::Ready) {
        size_t config = queue[position++];
        return step == Step::Look      ? Task{step, config, 4, 3, 25}
               : step == Step::Measure ? Task{step, config, 40, 5, 200}
                                       : Task{step, config, 10, 3, 50};
      }
    if (step == Step::Look) {
      step = Step::Measure;
      choosePlausible();
    } else if (step == Step::Measure) {
      step = Step::Compare;
      chooseFinalists();
    } else {
      step = Step::Done;
    }
  }
  return {Step::Done};
}

void Search::report(size_t config, const double *times, size_t count) {
  Candidate &candidate = candidates[config];
  if (again) {
    std::vector<double> second(times, times + count);
    if (summarise(second).median < summarise(candidate.looked).median)
      candidate.looked = std::move(second);
    return;
  }
  std::vector<double> &into = plan.plain || step == Step::Measure ? candidate.measured
                              : step == Step::Compare             ? candidate.compared
                                                                  : candidate.looked;
  into.insert(into.end(), times, times + count);
}

std::string Search::progress(std::string_view kernel) const {
  size_t measured = 0, failed = 0;
  for (const Candidate &candidate : candidates) {
    failed += candidate.state == State::Failed;
    measured += candidate.state != State::Failed && !candidate.times().empty();
  }
  std::string text =
      llvm::formatv("tuning {0}: {1} of {2} measured", kernel, measured, candidates.size()).str();
  if (failed)
    text += llvm::formatv(", {0} failed", failed).str();
  if (auto fastest = best())
    text += llvm::formatv(", best {0:F4} ms", timing(*fastest)->median).str();
  return text + llvm::formatv(", {0:F0} s", elapsed()).str();
}
