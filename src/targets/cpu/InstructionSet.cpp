#include "targets/cpu/InstructionSet.h"
#include "targets/cpu/executor/Tiles.h"

#include "llvm/ADT/STLExtras.h"
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
    TileAccess access = requestTiles();
    features.tileProducts = access.state == TileState::Granted;
    features.tileRefusal = access.error;
  }
  features.tileHalfProducts = features.tileProducts && is("amx-fp16");
  return features;
}

Features aarch64Features(const Extensions &extensions) {
  Features features = Features::aarch64();
  features.halfArithmetic = extensions.halfArithmetic;
  features.signedProducts = extensions.dotProducts;
  features.bf16MatrixProducts = extensions.bf16;
  features.i8MatrixProducts = extensions.i8mm;
  return features;
}

// LLVM finds a processor's extensions by its name, which it may not know.
static std::string aarch64Names(const Extensions &extensions) {
  std::string names;
  auto add = [&](bool has, const char *name) { names += has ? std::string(",+") + name : ""; };
  add(extensions.atomics, "lse");
  add(extensions.halfArithmetic, "fullfp16");
  add(extensions.dotProducts, "dotprod");
  add(extensions.bf16, "bf16");
  add(extensions.i8mm, "i8mm");
  return names.empty() ? names : names.substr(1);
}

static InstructionSet describeHost() {
  InstructionSet machine;
  machine.triple = llvm::sys::getDefaultTargetTriple();
  machine.isHost = true;
  machine.cpu = llvm::sys::getHostCPUName().str();
  if (!llvm::Triple(machine.triple).isX86()) {
    machine.features = aarch64Features(hostExtensions());
    machine.llvmFeatures = aarch64Names(hostExtensions());
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

namespace {

/// An instruction set that has a name.
struct Named {
  const char *name;
  bool isX86;
  const char *cpu, *llvmFeatures, *tune; // as LLVM has them
  Features features;
};
#define NEREID_PRODUCTS "+avx512vnni,+avx512bf16"
#define NEREID_TILES NEREID_PRODUCTS ",+amx-tile,+amx-bf16,+amx-int8"
#define NEREID_NEON "+lse,+fullfp16,+dotprod"
constexpr Named named[] = {
    {"graniterapids", true, "x86-64-v4", NEREID_TILES ",+amx-fp16", "", Features::graniteRapids()},
    {"sapphirerapids", true, "x86-64-v4", NEREID_TILES, "", Features::sapphireRapids()},
    {"avx512bf16", true, "x86-64-v4", NEREID_PRODUCTS, "", Features::avx512bf16()},
    {"avx512", true, "x86-64-v4", "", "", Features::avx512()},
    {"avx2", true, "x86-64-v3", "", "", Features::avx2()},
    {"baseline", true, "x86-64", "", "", Features::baseline()},
    {"neoverse-v1", false, "generic", NEREID_NEON ",+bf16,+i8mm", "neoverse-v1",
     Features::neoverseV1()},
    {"neoverse-n1", false, "generic", NEREID_NEON, "neoverse-n1", Features::neoverseN1()},
    {"aarch64", false, "generic", "", "", Features::aarch64()},
};
#undef NEREID_NEON
#undef NEREID_TILES
#undef NEREID_PRODUCTS

/// "`native`, `graniterapids`, ... or `aarch64`".
std::string allNames() {
  std::string text = "`native`";
  for (const Named &each : named)
    text += (&each == std::end(named) - 1 ? " or `" : ", `") + std::string(each.name) + "`";
  return text;
}

/// Whether a machine with the features `here` runs code for the features `wanted`.
bool covers(const Features &here, const Features &wanted) {
  return here.vectorBytes >= wanted.vectorBytes && here.byteProducts >= wanted.byteProducts &&
         here.bf16Products >= wanted.bf16Products && here.tileProducts >= wanted.tileProducts &&
         here.tileHalfProducts >= wanted.tileHalfProducts &&
         here.halfArithmetic >= wanted.halfArithmetic &&
         here.signedProducts >= wanted.signedProducts &&
         here.bf16MatrixProducts >= wanted.bf16MatrixProducts &&
         here.i8MatrixProducts >= wanted.i8MatrixProducts;
}

} // namespace

llvm::Expected<InstructionSet> instructionSetFor(llvm::StringRef name, bool mustRun) {
  if (name.empty() || name == "host") {
    // Asked once: the instruction that tells is slow where the machine is a virtual one.
    static const InstructionSet host = describeHost();
    return host;
  }
  const Named *found = llvm::find_if(named, [&](const Named &each) { return each.name == name; });
  if (found == std::end(named))
    return llvm::createStringError("unknown CPU features `" + name + "`: expected " + allNames());
  InstructionSet machine;
  machine.triple = llvm::sys::getDefaultTargetTriple();
  machine.cpu = found->cpu;
  machine.llvmFeatures = found->llvmFeatures;
  machine.tune = found->tune;
  machine.features = found->features;
  llvm::Triple host(machine.triple);
  if (found->isX86 != host.isX86()) {
    machine.triple = found->isX86 ? "x86_64-unknown-linux-gnu" : "aarch64-unknown-linux-gnu";
  } else {
    Features here = found->isX86 ? featuresOf(llvm::sys::getHostCPUFeatures())
                                 : aarch64Features(hostExtensions());
    machine.isHost = covers(here, machine.features);
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
