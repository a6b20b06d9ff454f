#include "targets/cpu/InstructionSet.h"
#include "targets/cpu/executor/Tiles.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

#include <cstring>

namespace nereid::cpu {

static Features featuresOf(const llvm::StringMap<bool> &has) {
  auto is = [&](llvm::StringRef name) { return has.lookup(name); };
  Features features;
  if (is("avx512f") && is("avx512bw") && is("avx512vl") && is("avx512dq"))
    features = Features::avx512();
  else if (is("avx2") && is("fma"))
    features = Features::avx2();
  else
    features = Features::baseline();
  features.rounding = is("sse4.1");
  features.f16c = is("f16c");
  bool wide = features.vectorBytes == 64;
  features.byteProducts = wide ? is("avx512vnni") : features.vectorBytes == 32 && is("avxvnni");
  features.bf16Products = wide && is("avx512bf16");
  // Where the processor has tiles, this process needs to be given them.
  if (features.bf16Products && features.byteProducts && is("amx-tile") && is("amx-bf16") &&
      is("amx-int8")) {
    const TileAccess &access = requestTiles();
    features.tileProducts = access.state == TileState::Granted;
    features.tileRefusal = access.error;
  }
  features.tileHalfProducts = features.tileProducts && is("amx-fp16");
  return features;
}

static InstructionSet describeHost() {
  InstructionSet machine;
  machine.triple = llvm::sys::getDefaultTargetTriple();
  machine.isHost = true;
  machine.cpu = llvm::sys::getHostCPUName().str();
  if (!llvm::Triple(machine.triple).isX86()) {
    machine.features = Features::aarch64();
    return machine;
  }
  llvm::StringMap<bool> has = llvm::sys::getHostCPUFeatures();
  machine.features = featuresOf(has);
  if (!machine.features.tileProducts)
    for (auto &feature : has)
      if (feature.first().starts_with("amx"))
        feature.second = false;
  for (auto &feature : has)
    machine.llvmFeatures += (machine.llvmFeatures.empty() ? "" : ",") +
                            std::string(feature.second ? "+" : "-") + feature.first().str();
  machine.features.slowGathers = llvm::StringRef(machine.cpu).starts_with("znver");
  return machine;
}

std::string tileRefusalText(int error) {
  return std::string("Linux refuses the tile registers of AMX (") + std::strerror(error) + ")";
}

llvm::Expected<InstructionSet> instructionSetFor(llvm::StringRef name, bool mustRun) {
  InstructionSet machine;
  machine.triple = llvm::sys::getDefaultTargetTriple();
  llvm::Triple host(machine.triple);
  if (name.empty() || name == "host") {
    // Asked once: the instruction that tells is slow where the machine is a virtual one.
    static const InstructionSet host = describeHost();
    return host;
  }
  bool isX86 = true;
  constexpr const char *products = "+avx512vnni,+avx512bf16",
                       *tiles = ",+amx-tile,+amx-bf16,+amx-int8";
  if (name == "graniterapids") {
    machine.cpu = "x86-64-v4";
    machine.llvmFeatures = std::string(products) + tiles + ",+amx-fp16";
    machine.features = Features::graniteRapids();
  } else if (name == "sapphirerapids") {
    machine.cpu = "x86-64-v4";
    machine.llvmFeatures = std::string(products) + tiles;
    machine.features = Features::sapphireRapids();
  } else if (name == "avx512bf16") {
    machine.cpu = "x86-64-v4";
    machine.llvmFeatures = products;
    machine.features = Features::avx512bf16();
  } else if (name == "avx512") {
    machine.cpu = "x86-64-v4";
    machine.features = Features::avx512();
  } else if (name == "avx2") {
    machine.cpu = "x86-64-v3";
    machine.features = Features::avx2();
  } else if (name == "baseline") {
    machine.cpu = "x86-64";
    machine.features = Features::baseline();
  } else if (name == "aarch64") {
    isX86 = false;
    machine.cpu = "generic";
    machine.features = Features::aarch64();
  } else {
    return llvm::createStringError("unknown CPU features `" + name +
                                   "`: expected `native`, `graniterapids`, `sapphirerapids`, "
                                   "`avx512bf16`, `avx512`, `avx2`, `baseline` or `aarch64`");
  }
  if (isX86 != host.isX86())
    machine.triple = isX86 ? "x86_64-unknown-linux-gnu" : "aarch64-unknown-linux-gnu";
  else
    machine.isHost = true;
  if (machine.isHost && isX86) {
    Features here = featuresOf(llvm::sys::getHostCPUFeatures());
    machine.isHost = here.vectorBytes >= machine.features.vectorBytes &&
                     here.byteProducts >= machine.features.byteProducts &&
                     here.bf16Products >= machine.features.bf16Products &&
                     here.tileProducts >= machine.features.tileProducts &&
                     here.tileHalfProducts >= machine.features.tileHalfProducts;
    if (mustRun && machine.features.tileProducts && here.tileRefusal)
      return llvm::createStringError("this process cannot run code for the CPU features `" + name +
                                     "`: " + tileRefusalText(here.tileRefusal));
  }
  if (mustRun && !machine.isHost)
    return llvm::createStringError("this machine cannot run code for the CPU features `" + name +
                                   "`");
  return machine;
}

} // namespace nereid::cpu
