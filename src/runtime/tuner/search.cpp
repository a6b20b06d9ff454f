#include "runtime/tuner/search.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <chrono>
#include <cmath>

using namespace nereid::runtime;

namespace {

/// Not looked at any further when the first runs, three in a row, take this factor of the best.
constexpr double hopeless = 3;
/// ... two of them this one, or the very first, which loads, the next one and milliseconds on top.
constexpr double outOfQuestion = 15, stuck = 50, stuckFor = 1000;
/// Within this factor of the best by their fastest runs: looked at again for as long.
constexpr double possible = 1.6;
/// Largest share of the time so far for the second, brief looks at the others.
constexpr double briefly = 0.1;
/// Rules out by the noise seen, this often, but by no less than the second factor.
constexpr double noises = 2, plausible = 1.1;
/// ... or by less than what the clock of a GPU's events resolves, in milliseconds.
constexpr double resolution = 0.001;
/// Measured in turns at the end: the best two, and those within this factor.
constexpr double nearby = 1.05;
constexpr size_t maxFinalists = 3;
constexpr size_t turns = 4;
/// Milliseconds of runs of one configuration: a look, a measurement, a turn.
constexpr double lookFor = 4, measureFor = 30, measureAtLeast = 6, turnFor = 8;
/// Of quick kernels.
constexpr double runsPerMillisecond = 5;
/// Of those that take less milliseconds the first run after runs of another one does not count: it
/// finds other code in the caches.
constexpr double settlesBelow = 1;
/// An idle GPU works until its clock no longer rises: for so many seconds at least and at most; it
/// is asked every so many whether it has risen by the share.
constexpr double wakeAtLeast = 0.05, wakeAtMost = 0.4, wakePart = 0.01, risen = 0.02;

/// Runs of a known time that take so many milliseconds.
unsigned runsFor(double milliseconds, double each, unsigned least, unsigned most) {
  return unsigned(std::clamp<double>(milliseconds / std::max(each, 1e-3), least, most));
}

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
    if (times == &Candidate::looked && !last.empty()) // too few runs for a median
      return *llvm::min_element(
          last, [&](size_t a, size_t b) { return candidates[a].floor < candidates[b].floor; });
    // One that was compared alone has not been compared.
    if (last.size() > (times == &Candidate::compared ? 1 : 0))
      return byMedian(std::move(last)).front();
    last.clear();
  }
  return std::nullopt;
}

std::vector<size_t> Search::within(double factor) const {
  std::vector<size_t> found;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (candidates[i].state == State::Ready && !candidates[i].times().empty())
      found.push_back(i);
  double limit = fastestRun() * factor + resolution;
  llvm::erase_if(found, [&](size_t i) { return candidates[i].floor > limit; });
  llvm::sort(found, [&](size_t a, size_t b) {
    return std::pair(candidates[a].floor, a) < std::pair(candidates[b].floor, b);
  });
  return found;
}

double Search::fastestRun() const {
  double fastest = std::numeric_limits<double>::infinity();
  for (const Candidate &candidate : candidates)
    if (candidate.state == State::Ready)
      fastest = std::min(fastest, candidate.floor);
  return fastest;
}

double Search::margin() const {
  std::vector<double> differences;
  for (const Candidate &candidate : candidates)
    if (candidate.state == State::Ready && candidate.again == Again::Fully &&
        !std::isinf(candidate.second))
      differences.push_back(std::abs(candidate.first - candidate.second) /
                            std::min(candidate.first, candidate.second));
  if (differences.size() < 2)
    return possible - 1;
  llvm::sort(differences);
  return std::clamp(noises * quantile(differences, 0.75), plausible - 1, possible - 1);
}

//===--- what is next
//------------------------------------------------------------------------------===//

std::optional<Search::Task> Search::wake() const {
  for (size_t i = 0; i < candidates.size(); ++i)
    if (candidates[i].state == State::Ready)
      return Task{Step::Wake, i, runsFor(2, waking.best, 1, 20)};
  return std::nullopt;
}

/// The next runs of a first look; nothing when it has been looked at.
std::optional<Search::Task> Search::lookAt(size_t config, double fastest) {
  Candidate &candidate = candidates[config];
  switch (candidate.stage) {
  case Stage::Untried:
    return Task{Step::Look, config, 1};
  case Stage::Loaded:
    if (candidate.floor > stuck * fastest + stuckFor)
      break;
    return Task{Step::Look, config, 1};
  case Stage::Once:
    if (candidate.floor > outOfQuestion * fastest + resolution)
      break;
    return Task{Step::Look, config, 1};
  case Stage::Tried:
    if (candidate.floor > hopeless * fastest + resolution)
      break;
    return Task{Step::Look, config, runsFor(lookFor, candidate.floor, 1, 23)};
  case Stage::Looked:
    break;
  }
  candidate.stage = Stage::Looked;
  return std::nullopt;
}

Search::Task Search::look() {
  double fastest = fastestRun();
  bool over = remaining() <= 0 && !std::isinf(fastest), waits = false;
  for (size_t i = 0; i < candidates.size() && !over; ++i) {
    const Candidate &candidate = candidates[i];
    waits |= candidate.state == State::Waiting;
    if (candidate.state != State::Ready)
      continue;
    if (!plan.plain) {
      if (std::optional<Task> task = lookAt(i, fastest))
        return *task;
    } else if (candidate.times().empty()) {
      return {Step::Measure, i, 1};
    }
  }
  if (waits)
    return {Step::Wait};
  for (const Candidate &candidate : candidates)
    stopped |= candidate.state != State::Failed && candidate.times().empty();
  return {Step::Done};
}

/// Whether there is something to look at again.
bool Search::lookAgain() {
  queue.clear();
  position = 0;
  std::vector<size_t> near = within(possible);
  if (near.size() > 1)
    llvm::copy_if(near, std::back_inserter(queue),
                  [&](size_t config) { return candidates[config].again != Again::Fully; });
  llvm::sort(queue, std::greater<>());
  for (size_t config : queue)
    candidates[config].again = Again::Fully;
  if (!again) {
    double left = briefly * spent;
    for (size_t config : within(std::numeric_limits<double>::infinity()))
      if (Candidate &candidate = candidates[config]; candidate.floor > fastestRun() &&
                                                     candidate.again == Again::No &&
                                                     (left -= candidate.floor) >= 0) {
        candidate.again = Again::Briefly;
        queue.push_back(config);
      }
  }
  again = true;
  return !queue.empty();
}

/// How many of its runs do not count after another one's.
unsigned Search::settles(const Candidate &candidate) {
  return candidate.floor < settlesBelow;
}

void Search::choosePlausible() {
  queue = within(1 + margin());
  position = 0;
  again = false;
  double all = measureFor * double(std::max<size_t>(4, candidates.size() / 3));
  each = std::clamp(all / double(std::max<size_t>(queue.size(), 1)), measureAtLeast, measureFor);
}

void Search::chooseFinalists() {
  std::vector<size_t> measured;
  for (size_t config : queue)
    if (candidates[config].state == State::Ready)
      measured.push_back(config);
  measured = byMedian(std::move(measured));
  queue.clear();
  position = 0;
  each = turnFor;
  if (measured.size() < 2)
    return;
  double limit = timing(measured.front())->median * nearby + resolution;
  size_t count = 2;
  while (count < std::min(measured.size(), maxFinalists) &&
         timing(measured[count])->median <= limit)
    ++count;
  measured.resize(count);
  for (size_t turn = 0; turn < turns; ++turn) {
    // Every other turn goes backwards, so that none is always the first after another.
    if (turn % 2)
      queue.insert(queue.end(), measured.rbegin(), measured.rend());
    else
      queue.insert(queue.end(), measured.begin(), measured.end());
  }
}

Search::Task Search::next() {
  waking.done |= remaining() <= 0;
  if (isWaking())
    if (std::optional<Task> task = wake())
      return *task;
  if ((step == Step::Look && !again) || plan.plain) {
    Task task = look();
    if (plan.plain || task.step != Step::Done)
      return task;
    if (!lookAgain())
      again = true; // nothing to look at: on to the next step
  }
  while (step != Step::Done && remaining() > 0) {
    for (; position < queue.size(); ++position) {
      size_t config = queue[position];
      const Candidate &candidate = candidates[config];
      if (candidate.state != State::Ready)
        continue;
      ++position;
      if (step == Step::Look)
        return {step, config,
                candidate.again == Again::Briefly ? 1 : runsFor(lookFor, candidate.floor, 2, 25)};
      auto most = unsigned(each * runsPerMillisecond);
      return {step, config,
              settles(candidate) +
                  runsFor(each, candidate.floor, step == Step::Measure ? 3 : 2, most)};
    }
    if (step == Step::Look) {
      if (lookAgain())
        continue;
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

//===--- what was measured
//-------------------------------------------------------------------------===//

void Search::report(size_t config, const double *times, size_t count) {
  Candidate &candidate = candidates[config];
  llvm::ArrayRef<double> runs(times, count);
  for (double time : runs)
    spent += time;
  double fastest = *llvm::min_element(runs);
  if (isWaking())
    return woken(fastest);
  candidate.floor = std::min(candidate.floor, fastest);
  if (again) {
    candidate.second = std::min(candidate.second, fastest);
    if (summarise(runs).median < summarise(candidate.looked).median)
      candidate.looked = runs;
  } else if (plan.plain) {
    candidate.measured = runs;
  } else if (step == Step::Look) {
    candidate.first = std::min(candidate.first, fastest);
    if (candidate.stage == Stage::Loaded)
      candidate.looked.clear(); // the run that loads counts where there is no other one
    llvm::append_range(candidate.looked, runs);
    candidate.stage = Stage(uint8_t(candidate.stage) + 1);
  } else {
    llvm::append_range(step == Step::Measure ? candidate.measured : candidate.compared,
                       count > 1 ? runs.drop_front(settles(candidate)) : runs);
  }
}

/// Whether a device has woken up, after runs of which the fastest took so long.
void Search::woken(double fastest) {
  double now = plan.now();
  if (waking.begin < 0)
    waking.begin = waking.part = now; // that one has loaded it
  else
    waking.best = std::min(waking.best, fastest);
  if (now - waking.begin > wakeAtMost)
    waking.done = true;
  if (now - waking.part < wakePart)
    return;
  waking.done |= now - waking.begin > wakeAtLeast && waking.best > (1 - risen) * waking.before;
  waking.before = waking.best;
  waking.part = now;
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
