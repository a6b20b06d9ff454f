#include "targets/cpu/codegen/LineInfo.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace nereid::cpu {
namespace {

/// The innermost place of a location that is in a file of the user's; null when there is none.
FileLineColLoc placeOf(Location location) {
  if (auto file = dyn_cast<FileLineColLoc>(location))
    return file.getFilename().strref().starts_with("<prelude>") ? FileLineColLoc() : file;
  if (auto name = dyn_cast<NameLoc>(location))
    return placeOf(name.getChildLoc());
  if (auto call = dyn_cast<CallSiteLoc>(location)) {
    FileLineColLoc callee = placeOf(call.getCallee());
    return callee ? callee : placeOf(call.getCaller());
  }
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      if (FileLineColLoc place = placeOf(part))
        return place;
  return {};
}

class Lines {
public:
  Lines(LLVM::LLVMFuncOp function, FileLineColLoc start)
      : context(function.getContext()), main(start.getFilename()) {
    LLVM::DIFileAttr file = fileOf(main);
    auto unit = LLVM::DICompileUnitAttr::get(
        DistinctAttr::create(UnitAttr::get(context)), llvm::dwarf::DW_LANG_Python, file,
        StringAttr::get(context, "nereid"), /*isOptimized=*/true, LLVM::DIEmissionKind::Full,
        LLVM::DINameTableKind::None);
    auto type = LLVM::DISubroutineTypeAttr::get(context, ArrayRef<LLVM::DITypeAttr>());
    auto name = StringAttr::get(context, function.getName());
    subprogram = LLVM::DISubprogramAttr::get(
        context, DistinctAttr::create(UnitAttr::get(context)), unit, file, name, name, file,
        start.getLine(), start.getLine(),
        LLVM::DISubprogramFlags::Definition | LLVM::DISubprogramFlags::Optimized, type, {}, {});
    function->setLoc(FusedLoc::get(context, {start}, subprogram));
  }

  Location at(Location location) {
    auto [it, added] = known.try_emplace(location, location);
    if (added) {
      FileLineColLoc place = placeOf(location);
      Location found = UnknownLoc::get(context);
      if (place && place.getFilename() == main)
        found = place;
      else if (place) // of a function in another file, which has become part of the kernel
        found = FusedLoc::get(
            context, {place},
            LLVM::DILexicalBlockFileAttr::get(subprogram, fileOf(place.getFilename()), 0));
      known.find(location)->second = found;
      return found;
    }
    return it->second;
  }

private:
  LLVM::DIFileAttr fileOf(StringAttr path) {
    return LLVM::DIFileAttr::get(context, llvm::sys::path::filename(path.strref()),
                                 llvm::sys::path::parent_path(path.strref()));
  }

  MLIRContext *context;
  StringAttr main;
  LLVM::DISubprogramAttr subprogram;
  llvm::DenseMap<Location, Location> known;
};

} // namespace

void addLineInfo(ModuleOp module) {
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    FileLineColLoc start = placeOf(function.getLoc());
    if (function.isExternal() || !start)
      continue;
    Lines lines(function, start);
    function.getBody().walk([&](Operation *op) { op->setLoc(lines.at(op->getLoc())); });
  }
}

} // namespace nereid::cpu
