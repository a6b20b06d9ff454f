// Kernels as text, taken through the last GPU passes and the emitter, and run on the simulator.
//
// Tensors come from the external function `input`, called with every element's flat index, and go
// to `record`, called with index and value by every thread for every register, copies included.
#pragma once
#include "WarpSimulator.h"

#include "gpu/Passes.h"
#include "ir/ngpu/Dialect.h"
#include "targets/nvidia/emit/Emitter.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <map>
#include <random>

namespace nereid::test {

using layout::Axis;
using layout::LinearLayout;

inline std::string attribute(const LinearLayout &layout) {
  return "#ngpu.layout<" + layout.str() + ">";
}

inline std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text;
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text;
}

inline std::string tensor(llvm::ArrayRef<int64_t> shape, llvm::StringRef element,
                          const LinearLayout &layout) {
  return "tensor<" + shapeText(shape) + element.str() + ", " + attribute(layout) + ">";
}

/// The flat indices of a tensor's elements.
inline std::string indices(llvm::StringRef name, llvm::ArrayRef<int64_t> shape,
                           const LinearLayout &layout) {
  int64_t elements = 1;
  for (int64_t size : shape)
    elements *= size;
  std::string hex;
  for (int64_t i = 0; i < elements; ++i)
    hex += llvm::formatv("{0:X-2}{1:X-2}{2:X-2}{3:X-2}", i & 255, i >> 8 & 255, i >> 16 & 255,
                         i >> 24 & 255)
               .str();
  std::string values = elements == 1 ? "0" : "\"0x" + hex + "\"";
  return "  %" + name.str() + " = arith.constant dense<" + values +
         "> : " + tensor(shape, "i32", layout) + "\n";
}

inline std::string input(llvm::StringRef name, llvm::StringRef index, llvm::ArrayRef<int64_t> shape,
                         llvm::StringRef element, const LinearLayout &layout,
                         llvm::StringRef function = "input") {
  return "  %" + name.str() + " = tile.extern_elementwise \"" + function.str() +
         "\" from \"test\"(%" + index.str() + ") : (" + tensor(shape, "i32", layout) + ") -> " +
         tensor(shape, element, layout) + "\n";
}

inline std::string record(llvm::StringRef index, llvm::StringRef value,
                          llvm::ArrayRef<int64_t> shape, llvm::StringRef element,
                          const LinearLayout &layout, llvm::StringRef function = "record") {
  static unsigned number = 0;
  return "  %unused" + std::to_string(number++) + " = tile.extern_elementwise \"" + function.str() +
         "\" from \"test\"(%" + index.str() + ", %" + value.str() + ") : (" +
         tensor(shape, "i32", layout) + ", " + tensor(shape, element, layout) + ") -> " +
         tensor(shape, "i32", layout) + "\n";
}

/// A value that looks random, of so many bits.
inline uint64_t noise(uint64_t index, unsigned bits, unsigned stream = 0) {
  uint64_t x = (index + 1) * 0x9E3779B97F4A7C15ull + stream * 0xD1B54A32D192ED03ull;
  x = (x ^ x >> 31) * 0xBF58476D1CE4E5B9ull;
  x ^= x >> 29;
  return bits >= 64 ? x : x & ((uint64_t(1) << bits) - 1);
}

struct SimulatedRun {
  std::string error;
  unsigned barriers = 0;
  unsigned meetings = 0; ///< barriers of the cluster
  unsigned sent = 0;     ///< times that a thread has sent words to a block
  uint64_t shuffles = 0;
  unsigned sharedBytes = 0;
};

/// Changes emitted code, to see that the simulator finds what is wrong then.
using Damage = llvm::function_ref<void(llvm::Module &)>;

/// `warps`: of all `blocks` of the program. `sends`: reductions across blocks send their partial
/// results; `late`: a block that goes on only where no other one can.
inline SimulatedRun simulate(const std::string &body, unsigned warps,
                             WarpSimulator::External external, int sm = 90,
                             unsigned maxSharedBytes = 232448, unsigned blocks = 1,
                             Damage damage = {}, bool sends = false,
                             std::optional<unsigned> late = std::nullopt) {
  SimulatedRun result;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  ngpu::loadDialects(context);
  std::string text =
      "func.func @k() attributes {tile.kernel, ngpu.num_warps = " + std::to_string(warps) +
      " : i32, ngpu.num_blocks = " + std::to_string(blocks) +
      " : i32, ngpu.sm = " + std::to_string(sm) + " : i32} {\n" + body + "  return\n}\n";
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module) {
    result.error = "cannot parse:\n" + text;
    return result;
  }
  auto kernel = *module->getOps<mlir::func::FuncOp>().begin();
  gpu::GpuOptions options;
  options.machine.generation = sm;
  options.machine.matrixStores = sm >= 90;
  options.numWarps = warps;
  options.numBlocks = blocks;
  options.machine.maxSharedBytes = maxSharedBytes;
  auto failed = [&](llvm::Error error) {
    if (!error)
      return false;
    result.error = llvm::toString(std::move(error)) + "\n" + text;
    return true;
  };
  if (failed(gpu::expandConversions(kernel, options)))
    return result;
  options.sendsPartials = sends;
  gpu::sendPartials(kernel, options);
  auto bytes = gpu::allocateShared(kernel, options);
  if (!bytes) {
    failed(bytes.takeError());
    return result;
  }
  result.sharedBytes = *bytes;
  if (failed(gpu::insertBarriers(kernel, options)))
    return result;
  if (mlir::failed(mlir::verify(*module))) {
    result.error = "invalid IR";
    return result;
  }
  nvidia::EmitOptions emit;
  emit.sm = sm;
  emit.lineInfo = false;
  llvm::LLVMContext llvmContext;
  auto emitted = nvidia::emitKernel(kernel, emit, llvmContext);
  if (!emitted) {
    failed(emitted.takeError());
    return result;
  }
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  if (llvm::verifyModule(*emitted->module, &stream)) {
    result.error = "invalid LLVM IR: " + problems;
    return result;
  }
  if (damage)
    damage(*emitted->module);
  WarpSimulator simulator(*emitted->module, emitted->warps, *bytes, emitted->blocks);
  simulator.onCall(std::move(external));
  simulator.late = late;
  result.error = simulator.run(emitted->entry, {});
  if (!result.error.empty()) {
    std::string printed;
    llvm::raw_string_ostream(printed) << *module;
    result.error += "\n" + printed.substr(0, 20000);
  }
  result.barriers = simulator.barriers;
  result.meetings = simulator.meetings;
  result.sent = simulator.sent;
  result.shuffles = simulator.shuffles;
  return result;
}

/// Any layout of a shape over so many warps: unit vectors or mixed ones in any order, with copies.
inline LinearLayout randomLayout(std::mt19937 &random, llvm::ArrayRef<int64_t> shape,
                                 unsigned warps, bool mixed) {
  auto core = layout::coreShape(shape);
  unsigned bits = 0;
  for (int64_t size : core)
    bits += llvm::Log2_64(size);
  std::vector<uint64_t> columns;
  for (unsigned bit = 0; bit < bits; ++bit)
    columns.push_back(uint64_t(1) << bit);
  auto below = [&](unsigned n) { return unsigned(random() % n); };
  if (mixed)
    for (unsigned i = 0; bits > 1 && i < bits; ++i) {
      unsigned a = below(bits), b = below(bits);
      if (a != b)
        columns[a] ^= columns[b];
    }
  unsigned places = 5 + llvm::Log2_32(warps);
  while (columns.size() < places || below(4) == 0)
    columns.push_back(below(2) && bits ? columns[below(bits)] : 0);
  std::shuffle(columns.begin(), columns.end(), random);
  std::array<LinearLayout::Columns, layout::kAxes> axes;
  for (unsigned i = 0; i < columns.size(); ++i)
    axes[i < 5 ? 1 : i < places ? 2 : 0].push_back(columns[i]);
  return LinearLayout::fromFlat(core, axes);
}

} // namespace nereid::test
