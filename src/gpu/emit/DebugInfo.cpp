#include "gpu/emit/DebugInfo.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Path.h"

namespace nereid::gpu {

/// The first place in a file that a location leads to.
static mlir::FileLineColLoc fileOfLocation(mlir::Location location) {
  if (auto file = llvm::dyn_cast<mlir::FileLineColLoc>(location))
    return file;
  if (auto name = llvm::dyn_cast<mlir::NameLoc>(location))
    return fileOfLocation(name.getChildLoc());
  if (auto call = llvm::dyn_cast<mlir::CallSiteLoc>(location))
    return fileOfLocation(call.getCallee());
  if (auto fused = llvm::dyn_cast<mlir::FusedLoc>(location))
    for (mlir::Location part : fused.getLocations())
      if (auto file = fileOfLocation(part))
        return file;
  return {};
}

DebugInfo::DebugInfo(llvm::Module &module, bool enabled) : module(module) {
  if (!enabled)
    return;
  builder = std::make_unique<llvm::DIBuilder>(module);
  module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
}

DebugInfo::~DebugInfo() = default;

llvm::DIFile *DebugInfo::fileOf(llvm::StringRef path) {
  llvm::DIFile *&file = files[path];
  if (!file)
    file = builder->createFile(llvm::sys::path::filename(path), llvm::sys::path::parent_path(path));
  return file;
}

llvm::DISubprogram *DebugInfo::inlinedFrom(llvm::StringRef path) {
  llvm::DISubprogram *&function = inlined[path];
  if (!function) {
    // Locations do not carry the name of the function that was inlined.
    llvm::DIFile *file = fileOf(path);
    function = builder->createFunction(
        file, llvm::sys::path::stem(path), "", file, 1,
        builder->createSubroutineType(builder->getOrCreateTypeArray({})), 1, llvm::DINode::FlagZero,
        llvm::DISubprogram::SPFlagDefinition | llvm::DISubprogram::SPFlagOptimized);
  }
  return function;
}

void DebugInfo::beginFunction(llvm::Function &function, mlir::Location location) {
  known.clear();
  current = nullptr;
  mlir::FileLineColLoc place = builder ? fileOfLocation(location) : mlir::FileLineColLoc();
  if (!place)
    return;
  llvm::DIFile *file = fileOf(place.getFilename());
  if (!unit)
    unit = builder->createCompileUnit(
        llvm::DISourceLanguageName(llvm::dwarf::DW_LANG_Python), file, "nereid",
        /*isOptimized=*/true, "", 0, "", llvm::DICompileUnit::DebugDirectivesOnly);
  current = builder->createFunction(
      file, function.getName(), function.getName(), file, place.getLine(),
      builder->createSubroutineType(builder->getOrCreateTypeArray({})), place.getLine(),
      llvm::DINode::FlagZero,
      llvm::DISubprogram::SPFlagDefinition | llvm::DISubprogram::SPFlagOptimized);
  function.setSubprogram(current);
}

llvm::DILocation *DebugInfo::resolve(mlir::Location location, llvm::DILocalScope *scope,
                                     llvm::DILocation *inlinedAt) {
  if (auto file = llvm::dyn_cast<mlir::FileLineColLoc>(location))
    return llvm::DILocation::get(module.getContext(), file.getLine(), file.getColumn(), scope,
                                 inlinedAt);
  if (auto name = llvm::dyn_cast<mlir::NameLoc>(location))
    return resolve(name.getChildLoc(), scope, inlinedAt);
  if (auto call = llvm::dyn_cast<mlir::CallSiteLoc>(location)) {
    llvm::DILocation *caller = resolve(call.getCaller(), scope, inlinedAt);
    auto callee = fileOfLocation(call.getCallee());
    // What the language's own library does is shown as the line of the kernel that called it.
    if (!caller || !callee || callee.getFilename().strref().starts_with("<prelude>"))
      return caller;
    return resolve(call.getCallee(), inlinedFrom(callee.getFilename()), caller);
  }
  if (auto fused = llvm::dyn_cast<mlir::FusedLoc>(location))
    for (mlir::Location part : fused.getLocations())
      if (llvm::DILocation *found = resolve(part, scope, inlinedAt))
        return found;
  return nullptr;
}

llvm::DebugLoc DebugInfo::at(mlir::Location location) {
  if (!current)
    return {};
  auto [it, added] = known.try_emplace(location, nullptr);
  if (added) {
    llvm::DILocation *found = resolve(location, current, nullptr);
    // Calls of other functions must carry a place where the caller has debug information.
    it = known.find(location);
    it->second = found ? found : llvm::DILocation::get(module.getContext(), 0, 0, current);
  }
  return llvm::DebugLoc(it->second);
}

void DebugInfo::finish() {
  if (builder && unit)
    builder->finalize();
}

} // namespace nereid::gpu
