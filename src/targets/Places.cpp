#include "targets/Places.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Metadata.h"
#include "llvm/IR/Module.h"

namespace nereid::targets {

using explain::SourcePlace;

/// Metadata of the module: a node for each noted call.
static constexpr const char *listName = "nereid.places";
/// Numbers begin here: libraries bring numbers of their own.
static constexpr uint64_t firstNumber = 0x6e72640000000000;

static void append(mlir::Location location, std::vector<SourcePlace> &places) {
  if (auto call = llvm::dyn_cast<mlir::CallSiteLoc>(location)) {
    append(call.getCallee(), places);
    append(call.getCaller(), places);
  } else if (auto fused = llvm::dyn_cast<mlir::FusedLoc>(location)) {
    if (!fused.getLocations().empty())
      append(fused.getLocations().front(), places);
  } else if (auto named = llvm::dyn_cast<mlir::NameLoc>(location)) {
    append(named.getChildLoc(), places);
  } else if (auto place = llvm::dyn_cast<mlir::FileLineColLoc>(location)) {
    places.push_back({place.getFilename().str(), place.getLine(), place.getColumn()});
  }
}

std::vector<SourcePlace> placesOf(mlir::Location location) {
  std::vector<SourcePlace> places;
  append(location, places);
  return places;
}

void notePlaces(llvm::CallBase &call, mlir::Location location) {
  llvm::LLVMContext &context = call.getContext();
  llvm::NamedMDNode *list = call.getModule()->getOrInsertNamedMetadata(listName);
  auto constant = [&](uint64_t value) {
    auto *type = llvm::Type::getInt64Ty(context);
    return llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(type, value));
  };
  llvm::SmallVector<llvm::Metadata *> parts;
  for (const SourcePlace &place : placesOf(location)) {
    parts.push_back(llvm::MDString::get(context, place.file));
    parts.push_back(constant(place.line));
    parts.push_back(constant(place.column));
  }
  if (parts.empty())
    return;
  call.setMetadata("srcloc",
                   llvm::MDNode::get(context, constant(firstNumber + list->getNumOperands())));
  list->addOperand(llvm::MDNode::get(context, parts));
}

std::vector<SourcePlace> notedPlaces(const llvm::Module &module, uint64_t number) {
  std::vector<SourcePlace> places;
  const llvm::NamedMDNode *list = module.getNamedMetadata(listName);
  if (!list || number < firstNumber || number - firstNumber >= list->getNumOperands())
    return places;
  const llvm::MDNode *node = list->getOperand(unsigned(number - firstNumber));
  auto integer = [&](unsigned i) {
    return unsigned(llvm::mdconst::extract<llvm::ConstantInt>(node->getOperand(i))->getZExtValue());
  };
  for (unsigned i = 0; i + 2 < node->getNumOperands(); i += 3)
    places.push_back({llvm::cast<llvm::MDString>(node->getOperand(i))->getString().str(),
                      integer(i + 1), integer(i + 2)});
  return places;
}

} // namespace nereid::targets
