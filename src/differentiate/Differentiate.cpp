#include "differentiate/Differentiate.h"

#include "differentiate/Checks.h"
#include "differentiate/Forward.h"
#include "differentiate/Transpose.h"

using namespace mlir;

namespace nereid::differentiate {

bool isWanted(func::FuncOp kernel) {
  for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
    if (kernel.getArgAttr(i, "tile.tangent"))
      return true;
  return false;
}

std::optional<Refusal> differentiate(func::FuncOp kernel) {
  SmallVector<Argument> arguments = argumentsOf(kernel);
  bool isReverse = kernel->hasAttr("tile.reverse");
  Activity activity(kernel, arguments);
  if (std::optional<Refusal> refusal = findRefusal(kernel, arguments, activity))
    return refusal;
  if (isReverse)
    if (std::optional<Refusal> refusal = findGradientRefusal(kernel, arguments))
      return refusal;
  addTangents(kernel, arguments, activity, isReverse);
  if (isReverse)
    if (std::optional<Refusal> refusal = transpose(kernel, arguments))
      return refusal;
  for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
    for (StringRef name : {"tile.tangent", "tile.wrt", "tile.out"})
      kernel.removeArgAttr(i, name);
  kernel->removeAttr("tile.reverse");
  return std::nullopt;
}

std::vector<std::string> gradientNotes(func::FuncOp kernel) {
  std::vector<std::string> notes;
  if (auto all = kernel->getAttrOfType<ArrayAttr>("tile.gradients"))
    for (StringRef note : all.getAsValueRange<StringAttr>())
      notes.push_back(note.str());
  return notes;
}

} // namespace nereid::differentiate
