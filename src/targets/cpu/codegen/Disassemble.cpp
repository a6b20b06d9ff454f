#include "targets/disassemble.h"

#include "llvm/DebugInfo/DWARF/DWARFContext.h"
#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCDisassembler/MCDisassembler.h"
#include "llvm/MC/MCInst.h"
#include "llvm/MC/MCInstPrinter.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/MCTargetOptions.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Triple.h"

#include <map>
#include <mutex>

namespace nereid::cpu {
namespace {

void initialize() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86Disassembler();
  });
}

/// All that turning bytes into text takes.
struct Tools {
  llvm::Triple triple{"x86_64-unknown-linux-gnu"};
  std::unique_ptr<llvm::MCRegisterInfo> registers;
  std::unique_ptr<llvm::MCAsmInfo> syntax;
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget;
  std::unique_ptr<llvm::MCInstrInfo> instructions;
  std::unique_ptr<llvm::MCContext> context;
  std::unique_ptr<llvm::MCDisassembler> disassembler;
  std::unique_ptr<llvm::MCInstPrinter> printer;

  bool open() {
    std::string problem;
    const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, problem);
    if (!target)
      return false;
    llvm::MCTargetOptions options;
    registers.reset(target->createMCRegInfo(triple));
    if (!registers)
      return false;
    syntax.reset(target->createMCAsmInfo(*registers, triple, options));
    // All instruction sets are enabled, so that any code can be disassembled.
    subtarget.reset(target->createMCSubtargetInfo(triple, "", ""));
    instructions.reset(target->createMCInstrInfo());
    if (!syntax || !subtarget || !instructions)
      return false;
    context =
        std::make_unique<llvm::MCContext>(triple, syntax.get(), registers.get(), subtarget.get());
    disassembler.reset(target->createMCDisassembler(*subtarget, *context));
    printer.reset(target->createMCInstPrinter(triple, syntax->getAssemblerDialect(), *syntax,
                                              *instructions, *registers));
    if (printer)
      printer->setPrintImmHex(true);
    return disassembler && printer;
  }
};

/// Names by address within one section: of what is called or used from outside, by relocations.
std::map<uint64_t, std::string> relocated(const llvm::object::SectionRef &section,
                                          const llvm::object::ObjectFile &object) {
  std::map<uint64_t, std::string> names;
  for (const llvm::object::SectionRef &other : object.sections()) {
    auto about = other.getRelocatedSection();
    if (!about) {
      llvm::consumeError(about.takeError());
      continue;
    }
    if (*about == object.section_end() || **about != section)
      continue;
    for (const llvm::object::RelocationRef &relocation : other.relocations()) {
      auto symbol = relocation.getSymbol();
      if (symbol == object.symbol_end())
        continue;
      auto name = symbol->getName();
      if (name)
        names[relocation.getOffset()] = name->str();
      else
        llvm::consumeError(name.takeError());
    }
  }
  return names;
}

using ElfFile = llvm::object::ELFFile<llvm::object::ELF64LE>;
using ElfSection = ElfFile::Elf_Shdr;

/// A table of symbols whose names and sections are all there.
llvm::Error checkSymbols(const ElfFile &file, const ElfSection &table, size_t sections) {
  auto symbols = file.symbols(&table);
  if (!symbols)
    return symbols.takeError();
  auto names = file.getStringTableForSymtab(table);
  if (!names)
    return names.takeError();
  for (const auto &symbol : *symbols) {
    if (auto name = symbol.getName(*names); !name)
      return name.takeError();
    if (symbol.st_shndx >= sections && symbol.st_shndx < llvm::ELF::SHN_LORESERVE)
      return llvm::createStringError("a symbol is in a section that is not there");
    if (symbol.st_shndx == llvm::ELF::SHN_XINDEX)
      return llvm::createStringError("it has more sections than are supported");
  }
  return llvm::Error::success();
}

/// Relocations of a section that is there, by symbols that are.
llvm::Error checkRelocations(const ElfFile &file, const ElfSection &table) {
  auto target = file.getSection(table.sh_info);
  if (!target)
    return target.takeError();
  auto linked = file.getSection(table.sh_link);
  if (!linked)
    return linked.takeError();
  auto symbols = file.symbols(*linked);
  if (!symbols)
    return symbols.takeError();
  auto check = [&](const auto &all) -> llvm::Error {
    for (const auto &relocation : all)
      if (relocation.getSymbol(false) >= std::max<size_t>(symbols->size(), 1))
        return llvm::createStringError("a relocation is by a symbol that is not there");
    return llvm::Error::success();
  };
  if (table.sh_type == llvm::ELF::SHT_REL) {
    auto all = file.rels(table);
    return all ? check(*all) : all.takeError();
  }
  auto all = file.relas(table);
  return all ? check(*all) : all.takeError();
}

/// Whether the file is what its headers say. LLVM's readers of symbols and relocations end the
/// process where it is not; these here give errors.
llvm::Error checkStructure(llvm::StringRef elf) {
  constexpr uint64_t mostExpanded = uint64_t(1) << 30;
  if (uint8_t(elf[llvm::ELF::EI_CLASS]) != llvm::ELF::ELFCLASS64 ||
      uint8_t(elf[llvm::ELF::EI_DATA]) != llvm::ELF::ELFDATA2LSB)
    return llvm::createStringError("it is not for a 64-bit little-endian processor");
  auto file = ElfFile::create(elf);
  if (!file)
    return file.takeError();
  auto sections = file->sections();
  if (!sections)
    return sections.takeError();
  for (const ElfSection &section : *sections) {
    if (auto name = file->getSectionName(section); !name)
      return name.takeError();
    auto contents = file->getSectionContents(section);
    if (!contents)
      return contents.takeError();
    if (section.sh_flags & llvm::ELF::SHF_COMPRESSED) {
      using Header = llvm::object::Elf_Chdr_Impl<llvm::object::ELF64LE>;
      if (contents->size() < sizeof(Header) ||
          reinterpret_cast<const Header *>(contents->data())->ch_size > mostExpanded)
        return llvm::createStringError("a compressed section is damaged");
    }
    llvm::Error wrong = llvm::Error::success();
    switch (section.sh_type) {
    case llvm::ELF::SHT_SYMTAB:
    case llvm::ELF::SHT_DYNSYM:
      wrong = checkSymbols(*file, section, sections->size());
      break;
    case llvm::ELF::SHT_REL:
    case llvm::ELF::SHT_RELA:
      wrong = checkRelocations(*file, section);
      break;
    case llvm::ELF::SHT_CREL:
    case llvm::ELF::SHT_SYMTAB_SHNDX:
      wrong = llvm::createStringError("it has a section of an unsupported type");
      break;
    default:
      break;
    }
    if (wrong)
      return wrong;
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::string> disassemble(llvm::StringRef elf) {
  initialize();
  if (llvm::Error damage = checkStructure(elf))
    return llvm::createStringError("it is no valid ELF file: " + llvm::toString(std::move(damage)));
  auto parsed = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(elf, "code"));
  if (!parsed)
    return llvm::createStringError("it is no valid ELF file: " +
                                   llvm::toString(parsed.takeError()));
  llvm::object::ObjectFile &object = **parsed;
  if (object.getArch() != llvm::Triple::x86_64)
    return llvm::createStringError("it is for " + llvm::Triple::getArchTypeName(object.getArch()) +
                                   ": only x86-64 and NVIDIA GPUs are known");
  Tools tools;
  if (!tools.open())
    return llvm::createStringError("LLVM was built without its disassembler for x86-64");
  std::unique_ptr<llvm::DWARFContext> lines = llvm::DWARFContext::create(
      object, llvm::DWARFContext::ProcessDebugRelocations::Process, nullptr, "",
      [](llvm::Error damage) { llvm::consumeError(std::move(damage)); },
      [](llvm::Error damage) { llvm::consumeError(std::move(damage)); });

  // Functions by section and address.
  std::map<uint64_t, std::map<uint64_t, std::string>> functions;
  for (const llvm::object::SymbolRef &symbol : object.symbols()) {
    auto type = symbol.getType();
    auto name = symbol.getName();
    auto address = symbol.getAddress();
    auto section = symbol.getSection();
    bool good = type && name && address && section;
    if (good && *type == llvm::object::SymbolRef::ST_Function && *section != object.section_end())
      functions[(*section)->getIndex()][*address] = name->str();
    if (!type)
      llvm::consumeError(type.takeError());
    if (!name)
      llvm::consumeError(name.takeError());
    if (!address)
      llvm::consumeError(address.takeError());
    if (!section)
      llvm::consumeError(section.takeError());
  }

  std::string text;
  llvm::raw_string_ostream out(text);
  for (const llvm::object::SectionRef &section : object.sections()) {
    auto contents = section.getContents();
    if (!section.isText() || !contents || contents->empty()) {
      if (!contents)
        llvm::consumeError(contents.takeError());
      continue;
    }
    std::map<uint64_t, std::string> &here = functions[section.getIndex()];
    std::map<uint64_t, std::string> names = relocated(section, object);
    llvm::ArrayRef<uint8_t> bytes = llvm::arrayRefFromStringRef(*contents);
    std::string lastLine;
    for (uint64_t offset = 0; offset < bytes.size();) {
      uint64_t address = section.getAddress() + offset;
      if (auto function = here.find(address); function != here.end()) {
        out << (text.empty() ? "" : "\n") << function->second << ":\n";
        lastLine.clear();
      }
      if (auto info = lines->getLineInfoForAddress({address, section.getIndex()});
          info && info->Line) {
        std::string line =
            "//## File \"" + info->FileName + "\", line " + std::to_string(info->Line);
        if (line != lastLine)
          out << line << "\n";
        lastLine = std::move(line);
      }
      llvm::MCInst instruction;
      uint64_t size = 0;
      auto status = tools.disassembler->getInstruction(instruction, size, bytes.slice(offset),
                                                       address, llvm::nulls());
      out << llvm::format("%8llx:", static_cast<unsigned long long>(address));
      if (status == llvm::MCDisassembler::Success) {
        tools.printer->printInst(&instruction, address, "", *tools.subtarget, out);
        auto used = names.lower_bound(offset);
        if (used != names.end() && used->first < offset + size)
          out << "  # " << used->second;
      } else {
        size = std::max<uint64_t>(size, 1);
        out << "\t.byte";
        for (uint64_t i = 0; i < size && offset + i < bytes.size(); ++i)
          out << llvm::format(i ? ", 0x%02x" : " 0x%02x", bytes[offset + i]);
      }
      out << "\n";
      offset += size;
    }
  }
  if (text.empty())
    return llvm::createStringError("it contains no code");
  return text;
}

} // namespace nereid::cpu
