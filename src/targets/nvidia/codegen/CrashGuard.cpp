#include "targets/nvidia/codegen/CrashGuard.h"

#include <atomic>
#include <csignal>
#include <iterator>
#include <link.h>
#include <mutex>
#include <ucontext.h>
#include <unistd.h>

namespace nereid::nvidia {
namespace {

constexpr int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
constexpr size_t signalCount = std::size(signals);

/// Guards by the number of their thread, which is 0 in a free place. (Memory of each thread for
/// itself may be made at its first use, which no handler can do, or stands in a block that is too
/// small for a library that is loaded late.)
struct ThreadSlot {
  std::atomic<pid_t> thread;
  CrashGuard *guard;
} places[64];

/// The previous handlers, by index in `signals`; written before ours is installed.
struct sigaction former[signalCount];
/// How often it has been put back since.
std::atomic<int> handedBack[signalCount];
std::mutex mutex;
int guards = 0;

uintptr_t instructionOf(const void *context) {
  const auto &machine = static_cast<const ucontext_t *>(context)->uc_mcontext;
#if defined(__x86_64__)
  return uintptr_t(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return uintptr_t(machine.pc);
#else
  return 0;
#endif
}

void handle(int signal, siginfo_t *info, void *context) {
  bool isFault = info->si_code > 0; // by the processor, not sent
  uintptr_t at = instructionOf(context);
  pid_t thread = gettid();
  for (ThreadSlot &place : places)
    if (isFault && place.thread.load(std::memory_order_acquire) == thread && place.guard->takes(at))
      siglongjmp(place.guard->place, 1);
  // The handler of before is put back and gets it from the kernel, as it would without us: the
  // instruction fails once more, or the signal is sent again.
  for (size_t i = 0; i < signalCount; ++i)
    if (signals[i] == signal) {
      // A handler that was installed after ours may call ours again, without end.
      bool isCircle = ++handedBack[i] > 8;
      struct sigaction fatal{};
      sigaction(signal, isCircle ? &fatal : &former[i], nullptr);
    }
  if (!isFault)
    raise(signal);
}

bool isOurs(const struct sigaction &action) {
  return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == handle;
}

} // namespace

CodeRange codeOfLibraryWith(const void *function) {
  struct Search {
    uintptr_t function;
    CodeRange found;
  } search{reinterpret_cast<uintptr_t>(function), {}};
  dl_iterate_phdr(
      [](dl_phdr_info *library, size_t, void *data) {
        auto &search = *static_cast<Search *>(data);
        for (int i = 0; i < library->dlpi_phnum; ++i) {
          const ElfW(Phdr) &part = library->dlpi_phdr[i];
          uintptr_t begin = library->dlpi_addr + part.p_vaddr, end = begin + part.p_memsz;
          if (part.p_type != PT_LOAD || !(part.p_flags & PF_X) || search.function < begin ||
              search.function >= end)
            continue;
          search.found = {begin, end};
          return 1;
        }
        return 0;
      },
      &search);
  return search.found;
}

CrashGuard::CrashGuard(CodeRange code) : code(code) {
  std::lock_guard lock(mutex);
  ++guards;
  // Without a free place it guards nothing.
  for (size_t i = 0; i < std::size(places) && number < 0; ++i)
    if (places[i].thread.load(std::memory_order_relaxed) == 0) {
      number = int(i);
      places[i].guard = this;
      places[i].thread.store(gettid(), std::memory_order_release);
    }
  // Also where another guard is alive: its handler may have been put out of force.
  for (size_t i = 0; i < signalCount; ++i) {
    struct sigaction now;
    if (sigaction(signals[i], nullptr, &now) != 0 || isOurs(now))
      continue;
    former[i] = now;
    handedBack[i] = 0;
    struct sigaction ours{};
    ours.sa_sigaction = handle;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    sigaction(signals[i], &ours, nullptr);
  }
}

CrashGuard::~CrashGuard() {
  std::lock_guard lock(mutex);
  if (number >= 0)
    places[number].thread.store(0, std::memory_order_relaxed);
  if (--guards > 0)
    return;
  // A handler that was installed meanwhile stays.
  for (size_t i = 0; i < signalCount; ++i)
    if (struct sigaction now; sigaction(signals[i], nullptr, &now) == 0 && isOurs(now))
      sigaction(signals[i], &former[i], nullptr);
}

} // namespace nereid::nvidia
