// Random programs for the front end's evaluation without libFuzzer, in every preset.
//
//   evaluate_random SECONDS [SEED]       programs from this seed on, for so long
//   evaluate_random --show SEED          the text of one
#include "Evaluate.h"

#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sys/resource.h>
#include <vector>

static std::string program(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> bytes(20 + random() % 400);
  for (uint8_t &byte : bytes)
    byte = uint8_t(random());
  return nereid::fuzz::programOf(bytes.data(), bytes.size());
}

int main(int argc, char **argv) {
  if (argc == 3 && !std::strcmp(argv[1], "--show")) {
    llvm::outs() << program(std::strtoull(argv[2], nullptr, 10));
    return 0;
  }
  double seconds = argc > 1 ? std::atof(argv[1]) : 10;
  uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::random_device()();
  llvm::outs() << "first seed " << first << '\n';
  llvm::outs().flush();
  auto begin = std::chrono::steady_clock::now();
  uint64_t seed = first;
  do {
    nereid::fuzz::evaluate(program(seed++), /*seconds=*/60);
  } while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() <
           seconds);
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  llvm::outs() << seed - first << " programs, at most " << usage.ru_maxrss / 1024 << " MiB\n";
  if (usage.ru_maxrss / 1024 > 4096) {
    llvm::errs() << "error: more than 4 GiB\n";
    return 1;
  }
  return 0;
}
