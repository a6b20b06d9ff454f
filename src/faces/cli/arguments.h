// Arguments of a launch, written on the command line:
//
//   n=4096   eps=1e-5   flag=True   x=None          numbers, constants
//   stride=N*2                                      a formula of other arguments
//   x=randn:4096x4096:fp16                          a tensor: how it is filled, sizes, element type
//   ACTIVATION=relu                                 any other text: a constexpr
//
// Fillings: randn, rand, zeros, ones, arange, empty, randint(N) (whole numbers below N). A size may
// be a formula: `x=randn:(M)x(K):fp16`.
#pragma once
#include "faces/cli/selection.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nereid::cli {

struct TensorSpec {
  std::string filling; ///< "randn", ...
  int64_t below = 0;   ///< of randint
  std::vector<int64_t> sizes;
  std::string element; ///< "fp16"
  nrd_dtype dtype = NRD_FP32;
  unsigned bits = 32;

  /// Saturates at 64 bits; no memory is that large.
  int64_t count() const { return times(1); }
  int64_t bytes() const { return times((bits + 7) / 8); }

private:
  int64_t times(uint64_t product) const {
    for (int64_t size : sizes)
      product = llvm::SaturatingMultiply(product, uint64_t(size));
    return int64_t(std::min(product, uint64_t(INT64_MAX)));
  }
};

/// One argument, as it was written and what it means.
struct ArgumentValue {
  std::string text;
  enum class Kind : uint8_t { Missing, Integer, Float, Bool, None, Text, Tensor };
  Kind kind = Kind::Missing;
  int64_t integer = 0;
  double number = 0;
  TensorSpec tensor;
};

/// The arguments of a kernel in the order of its parameters.
struct ArgumentList {
  std::vector<std::string> names;
  std::vector<bool> constant; ///< constexpr
  std::vector<ArgumentValue> values;

  /// The value of a name in a formula; nullopt unless it is a known integer.
  std::optional<int64_t> integerOf(std::string_view name) const;
  bool complete() const;
};

/// Reads `--arg NAME=VALUE` texts for the parameters of a function; what is wrong goes to
/// `diagnostics` (an unknown name with the nearest one).
ArgumentList readArguments(nrd_function *function, const std::vector<std::string> &texts,
                           DiagnosticEngine &diagnostics);

/// The signature that a launch with these arguments has: "*fp16:16", "i32:1", "1024". A parameter
/// without a value is an error, if it has no default.
std::vector<std::string> signatureOf(nrd_function *function, const ArgumentList &list,
                                     DiagnosticEngine &diagnostics);

/// "cdiv(n, BLOCK), 1": the grid; ones behind what is given.
std::optional<std::array<uint32_t, 3>> readGrid(const std::string &text, const ArgumentList &list,
                                                DiagnosticEngine &diagnostics);

/// Memory of the host for the tensors, and the arguments as a launch takes them.
class LaunchMemory {
public:
  /// 0 or the exit status.
  int allocate(const ArgumentList &list);
  LaunchMemory() = default;
  LaunchMemory(const LaunchMemory &) = delete;
  LaunchMemory &operator=(const LaunchMemory &) = delete;
  ~LaunchMemory();
  const std::vector<nrd_arg> &args() const { return list; }

private:
  std::vector<nrd_arg> list;
  std::vector<ValueHandle> constants;
  std::vector<void *> memory;
};

} // namespace nereid::cli
