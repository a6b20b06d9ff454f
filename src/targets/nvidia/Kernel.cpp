#include "targets/nvidia/Kernel.h"

#include "explain/Occupancy.h"
#include "support/bytes.h"
#include "support/settings.h"
#include "targets/disassemble.h"
#include "targets/generator.h"
#include "targets/nvidia/LaunchInfoFile.h"
#include "targets/nvidia/codegen/Assembler.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"

namespace nereid::nvidia {

std::optional<std::string> NvidiaKernel::text(llvm::StringRef stage, std::string &why) const {
  if (stage == "ptx")
    return ptx;
  if (stage == "cubin")
    return object(why);
  if (stage == "sass") {
    std::optional<std::string> image = object(why);
    if (!image)
      return std::nullopt;
    auto text = disassemble(*image);
    if (text)
      return std::move(*text);
    why = llvm::toString(text.takeError());
    return std::nullopt;
  }
  const std::string *kept = stage == "tile" || stage == "ttir"   ? &tile
                            : stage == "gpu" || stage == "ttgir" ? &gpu
                            : stage == "llir"                    ? &llir
                            : stage == "layouts"                 ? &layouts
                                                                 : nullptr;
  return kept && !kept->empty() ? std::optional(*kept) : std::nullopt;
}

std::optional<std::string> NvidiaKernel::object(std::string &why) const {
  std::lock_guard lock(mutex);
  if (cubin.empty())
    if (llvm::Error error = assemble()) {
      why = llvm::toString(std::move(error));
      return std::nullopt;
    }
  return cubin;
}

std::vector<explain::Hint> NvidiaKernel::takeAdvice() const {
  std::lock_guard lock(mutex);
  std::vector<explain::Hint> taken = std::exchange(advice, {});
  llvm::erase_if(taken, [](const explain::Hint &hint) {
    return hint.kind == explain::HintKind::AssemblerNote; // nothing that an author can change
  });
  return taken;
}

bool NvidiaKernel::save(ByteWriter &out) const {
  std::lock_guard lock(mutex);
  saveCommon(out);
  out.text(ptx);
  out.text(cubin);
  out.text(layouts);
  saveLaunchInfo(info, out);
  out.number(int32_t(stackBytes));
  out.number(int32_t(registerDemand));
  out.flag(isBoundByProducts);
  out.flag(isGradient);
  return true;
}

void NvidiaKernel::restore(ByteReader &in) {
  restoreCommon(in);
  ptx = in.text();
  cubin = in.text();
  layouts = in.text();
  restoreLaunchInfo(info, in);
  stackBytes = in.number<int32_t>();
  registerDemand = in.number<int32_t>();
  isBoundByProducts = in.flag();
  isGradient = in.flag();
}

/// Up to which block of a multiprocessor code is told of one that too many registers keep away, and
/// how many are not too many: `part` / `of` of the block's limit.
struct MissedBlocks {
  int most, part, of;
};
static constexpr MissedBlocks missedByOthers{3, 1, 3};
/// Those of gradients with schedules are often needed in the branches for other strides.
static constexpr MissedBlocks missedByProducts{2, 2, 3};
static constexpr MissedBlocks missedByRows{2, 1, 2}; ///< gradients of rows
/// Products of one or two warps, of which a multiprocessor holds many blocks: 32x64x32 with 2 warps
/// has 96 for 114 registers, a ninth block, and 0.97 of the time (docs/notes/performance.md).
static constexpr MissedBlocks missedByFewWarps{32, 1, 4};
static constexpr unsigned kFewWarps = 2;

/// The block that a few registers too many keep from a multiprocessor; 0 for none. Told of the
/// block, the assembler often does with so many fewer, without spills.
static int narrowlyMissedBlock(const Assembly &assembly, const Architecture &arch,
                               const LaunchInfo &info, MissedBlocks missed) {
  auto multiprocessor = explain::multiprocessorOf(arch.sm);
  if (!multiprocessor)
    return 0;
  explain::BlockNeeds needs{32 * info.numWarps, assembly.registers, int(info.sharedBytes)};
  int next = explain::occupancyOf(*multiprocessor, needs).blocks + 1;
  int most = explain::registersFor(*multiprocessor, needs.threads, next);
  needs.registers = most;
  bool isNarrow = next >= 2 && next <= missed.most && assembly.registers > most &&
                  assembly.registers <= most + missed.part * most / missed.of &&
                  explain::occupancyOf(*multiprocessor, needs).blocks >= next;
  return isNarrow ? next : 0;
}

/// Would even all registers that a thread can have hold just two thirds of what it needs? Then
/// every register less is a spill more.
static bool mustSpill(int demand, const LaunchInfo &info) {
  int most = std::min(255, 65536 / (32 * info.numWarps));
  return demand > most * 3 / 2;
}

/// Numbers of blocks that a multiprocessor could hold with about `demand` registers a thread, the
/// most first; none where one block is all, or where the code spills in any case.
static llvm::SmallVector<int, 2> blocksToAimAt(int demand, const Architecture &arch,
                                               const LaunchInfo &info) {
  auto multiprocessor = explain::multiprocessorOf(arch.sm);
  llvm::SmallVector<int, 2> aims;
  if (!multiprocessor || !demand || mustSpill(demand, info))
    return aims;
  for (int threads = 32 * info.numWarps; aims.size() < 2;) {
    int blocks =
        explain::occupancyOf(*multiprocessor, {threads, demand, int(info.sharedBytes)}).blocks;
    if (blocks < 2 || (!aims.empty() && blocks >= aims.back()))
      break;
    aims.push_back(blocks);
    // A quarter more for the next attempt.
    demand = explain::registersFor(*multiprocessor, threads, blocks) * 5 / 4;
  }
  return aims;
}

/// Does a text of PTX or of options say how many registers there are?
static bool namesRegisters(llvm::StringRef text) {
  return text.contains("maxnreg") || text.contains("minnctapersm") ||
         text.contains("maxrregcount") || text.contains("setmaxnreg");
}

/// The advice for the author of a kernel that follows from an assembler's warning.
static explain::Hint hintOf(llvm::StringRef warning, const LaunchInfo &info, int maxRegisters) {
  using explain::HintKind;
  if (warning.contains("insufficient register resources")) {
    int registers = std::min(255, 65536 / (32 * info.numWarps));
    std::string remedy = "smaller blocks";
    if (info.numWarps < 16)
      remedy = "`num_warps=" + std::to_string(2 * info.numWarps) + "` or " + remedy;
    if (maxRegisters && maxRegisters < registers) {
      registers = maxRegisters;
      remedy = "a larger `maxnreg`, " + remedy;
    }
    return makeHint(HintKind::SerialProducts, {}, {std::to_string(registers), remedy});
  }
  if (warning.contains("Extern calls") || warning.contains("at a function call"))
    return makeHint(HintKind::InterruptedProducts, {}, {});
  return makeHint(isPerformanceAdvisory(warning) ? HintKind::AssemblerNote
                                                 : HintKind::AssemblerWarning,
                  {}, {warning.str()});
}

/// The place of a `.loc` or of its `inlined_at`: file, line, column.
static std::optional<explain::SourcePlace> placeIn(llvm::StringRef numbers,
                                                   const llvm::StringMap<std::string> &files) {
  llvm::SmallVector<llvm::StringRef> parts;
  numbers.ltrim().split(parts, ' ', 3, false);
  explain::SourcePlace place;
  if (parts.size() < 3 || parts[1].getAsInteger(10, place.line) ||
      parts[2].rtrim(", ;\t").getAsInteger(10, place.column))
    return std::nullopt;
  auto file = files.find(parts[0]);
  if (file == files.end() || place.line == 0)
    return std::nullopt;
  place.file = file->second;
  return place;
}

/// The assembler's error with the place of the author's assembly that it is about; the same error
/// where it is about something else, or the PTX names no places (NEREID_LINE_INFO).
static llvm::Error placedInSource(llvm::Error error, llvm::StringRef ptx) {
  if (!error.isA<llvm::StringError>())
    return error;
  std::string text = llvm::toString(std::move(error));
  auto same = [&] { return llvm::createStringError(text); };
  // "ptxas application ptx input, line 39; error : Not a name of any known instruction: 'nonsense'"
  llvm::SmallVector<llvm::StringRef, 4> match;
  unsigned number = 0;
  if (!llvm::Regex("line ([0-9]+); *(error[^;]*)").match(text, &match) ||
      match[1].getAsInteger(10, number) || number == 0)
    return same();
  llvm::StringMap<std::string> files;
  llvm::SmallVector<llvm::StringRef> lines;
  ptx.split(lines, '\n');
  for (llvm::StringRef line : lines)
    if (llvm::StringRef rest = line.trim(); rest.consume_front(".file")) {
      auto [index, name] = rest.trim().split(' ');
      if (index.getAsInteger(10, number) == false)
        files[index] = name.trim().trim('"').str();
    }
  match[1].getAsInteger(10, number);
  bool inside = false;
  llvm::StringRef place;
  for (llvm::StringRef line : llvm::ArrayRef(lines).take_front(number)) {
    line = line.trim();
    if (line.contains("// begin inline asm"))
      inside = true;
    else if (line.contains("// end inline asm"))
      inside = false;
    else if (line.consume_front(".loc"))
      place = line;
  }
  auto innermost = placeIn(place, files);
  if (!inside || !innermost)
    return same();
  std::vector<explain::SourcePlace> places{*innermost};
  for (llvm::StringRef rest = place.split("inlined_at").second; !rest.empty();
       rest = rest.split("inlined_at").second)
    if (auto caller = placeIn(rest, files))
      places.push_back(*caller);
  llvm::StringRef line = number <= lines.size() ? lines[number - 1].trim() : "";
  return llvm::make_error<targets::AssemblyRefused>(
      match[2].trim().str() + " in `" + line.str() + "`", std::move(places));
}

/// Spills, in bytes a thread, that are cheaper than a block less,
static constexpr int kFewSpills = 16;
/// and than the second block of a multiprocessor.
static constexpr int kSecondBlockSpills = 64;

/// How many blocks of the code a multiprocessor holds.
static int blocksOf(const Assembly &assembly, const Architecture &arch, const LaunchInfo &info) {
  auto multiprocessor = explain::multiprocessorOf(arch.sm);
  explain::BlockNeeds needs{32 * info.numWarps, assembly.registers, int(info.sharedBytes)};
  return multiprocessor ? explain::occupancyOf(*multiprocessor, needs).blocks : 0;
}

/// Rows that spill although an assembler may take all registers: `ptxas` sometimes spills an eighth
/// of what nvJitLink does, from the same PTX. Its code is taken if it spills half as much at most
/// and as many blocks fit.
void NvidiaKernel::askAnotherAssembler(Assembly &assembly, const AssembleOptions &how) const {
  if (!Settings::current().secondAssembler || !registerDemand ||
      assembly.spillStoreBytes <= kFewSpills || namesRegisters(ptx) ||
      namesRegisters(how.further) || how.optLevel == 0)
    return;
  std::optional<Assembly> other = assembleByProgram(ptx, info.entry, how);
  if (other && 2 * other->spillStoreBytes <= assembly.spillStoreBytes &&
      blocksOf(*other, arch, info) >= blocksOf(assembly, arch, info))
    assembly = std::move(*other);
}

/// Assembles. nvJitLink compiles what may be linked with more, and then does not aim at a number of
/// blocks as the other assemblers do: it is told one.
llvm::Expected<Assembly> NvidiaKernel::assembleForBlocks(const AssembleOptions &how) const {
  auto aimingAt = [&](int blocks) {
    AssembleOptions aiming = how;
    aiming.further += " -minnctapersm=" + std::to_string(blocks);
    return nvidia::assemble(ptx, info.entry, aiming, assemblyNotes);
  };
  auto assembler = findAssembler(&arch);
  bool isFree = bool(assembler) &&
                llvm::StringRef((*assembler)->description()).starts_with("nvJitLink") &&
                !namesRegisters(ptx) && !namesRegisters(how.further) && how.optLevel > 0;
  if (!assembler)
    llvm::consumeError(assembler.takeError());
  if (!isFree)
    return nvidia::assemble(ptx, info.entry, how, assemblyNotes);
  std::optional<Assembly> best;
  for (int blocks : blocksToAimAt(registerDemand, arch, info)) {
    auto assembly = aimingAt(blocks);
    if (!assembly)
      return assembly.takeError();
    // Products that wait for one another cost more than a block less.
    if (llvm::any_of(assembly->warnings, isPerformanceAdvisory))
      continue;
    if (!best || assembly->spillStoreBytes < best->spillStoreBytes)
      best = std::move(*assembly);
    if (best->spillStoreBytes <= kFewSpills)
      return std::move(*best);
  }
  auto assembly = nvidia::assemble(ptx, info.entry, how, assemblyNotes);
  if (!assembly)
    return assembly;
  if (best && best->spillStoreBytes <= assembly->spillStoreBytes)
    return std::move(*best);
  // Whether a block more helps products that nothing interrupts has been measured in gradients and
  // with few warps, and for the third one, which does not.
  bool isRow = registerDemand && isGradient && !isBoundByProducts;
  bool isSmall = isBoundByProducts && !isGradient && unsigned(info.numWarps) <= kFewWarps;
  bool asks = isRow || (!registerDemand && (isGradient || isSmall || !isBoundByProducts));
  MissedBlocks missed = isSmall             ? missedByFewWarps
                        : isBoundByProducts ? missedByProducts
                        : isRow             ? missedByRows
                                            : missedByOthers;
  int blocks = asks ? narrowlyMissedBlock(*assembly, arch, info, missed) : 0;
  if (blocks) {
    auto again = aimingAt(blocks);
    int spills =
        assembly->spillStoreBytes + (isBoundByProducts && !isSmall ? kSecondBlockSpills : 0);
    if (!again)
      llvm::consumeError(again.takeError());
    else if (again->registers < assembly->registers && again->spillStoreBytes <= spills &&
             again->warnings.size() <= assembly->warnings.size())
      return again;
  }
  return assembly;
}

llvm::Error NvidiaKernel::assemble() const {
  const Settings &settings = Settings::current();
  AssembleOptions how{arch, settings.assemblerOptimisation ? 3 : 0,
                      settings.assemblerOptions + " " + assemblerOptions};
  auto assembly = assembleForBlocks(how);
  if (!assembly)
    return placedInSource(assembly.takeError(), ptx);
  askAnotherAssembler(*assembly, how);
  if (settings.printAssembler)
    llvm::errs() << "// " << assembly->by << " about " << info.entry << ":\n"
                 << assembly->log << '\n';
  cubin = std::move(assembly->cubin);
  for (const std::string &warning : assembly->warnings)
    advice.push_back(hintOf(warning, info, maxRegisters));
  info.registers = assembly->registers;
  info.spills = assembly->spillStoreBytes;
  stackBytes = assembly->stackBytes;
  return llvm::Error::success();
}

} // namespace nereid::nvidia
