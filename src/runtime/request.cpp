#include "runtime/request.h"

#include "runtime/function.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

namespace nereid::runtime {

std::string configurationText(const CompileRequest &request) {
  const Options &options = request.options;
  std::string text = "num_warps=" + std::to_string(options.numWarps) +
                     ", num_stages=" + std::to_string(options.numStages);
  for (auto [spec, rule] : llvm::zip(request.specs, request.function->rules))
    if (rule.isConstexpr)
      text += ", " + rule.name + "=" + signatureText(spec);
  return text;
}

std::string hashOf(const CompileRequest &request) {
  const frontend::Function &function = request.function->function;
  std::string identity(function.module().source().text(function.range()));
  for (const frontend::ParamSpec &spec : request.specs)
    identity += "," + signatureText(spec);
  identity += function.derivativeText() + request.options.text();
  return llvm::utohexstr(llvm::xxh3_64bits(identity), true, 16);
}

} // namespace nereid::runtime
