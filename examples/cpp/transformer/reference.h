// The transformer in plain C++ and double precision, to compare with.
#pragma once

#include <cstddef>
#include <vector>

/// Sizes of the model. The kernels take heads of 64 elements, 4 or 16 of them, and at most 1024
/// columns and words.
struct Sizes {
  int layers = 2;
  int heads = 4;
  int hidden = 512;    ///< of the MLP
  int words = 512;     ///< of the vocabulary
  int positions = 512; ///< in the cache
  static constexpr int head = 64;
  int columns() const { return heads * head; }
};

/// The weights, as they are after rounding to the element type of the kernels. Matrices are
/// [inputs, outputs], row-major.
struct Weights {
  struct Layer {
    std::vector<float> norm1, qkv, out, norm2, gateUp, down;
  };
  std::vector<float> table, norm, head;
  std::vector<Layer> layers;
};

constexpr float epsilon = 1e-5f;

/// The logits of every position of a text: [tokens, words].
std::vector<double> referenceLogits(const Sizes &sizes, const Weights &weights,
                                    const std::vector<int> &tokens);
