// A function as the runtime sees it: the object behind `nrd_function`.
#pragma once

#include "frontend/function.h"
#include "nereid/nereid.h"
#include "runtime/dispatcher.h"
#include "runtime/specialise.h"
#include "runtime/tile_source.h"

#include "llvm/ADT/StringMap.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace nereid::runtime {

struct FunctionRecord : std::enable_shared_from_this<FunctionRecord> {
  FunctionRecord(syntax::ModulePtr module, const syntax::FunctionDef *definition, void *hostData)
      : function(std::move(module), definition, hostData), rules(paramRules(function)),
        kinds(ruleKinds(rules)), name(function.name().str()) {}

  frontend::Function function;
  /// Compiled in place of `function`, which is only a declaration then.
  TileSourcePtr tile;
  std::vector<ParamRule> rules;
  std::vector<RuleKind> kinds; ///< of `rules`
  std::string name;
  /// The face's answers to what names mean; standing alone they come from the module.
  std::optional<nrd_host> host;
  Dispatcher dispatcher;

  /// To be called after a change of `rules`.
  void rulesChanged() {
    kinds = ruleKinds(rules);
    dispatcher.forgetPatterns();
  }
};

} // namespace nereid::runtime

struct nrd_function {
  std::shared_ptr<nereid::runtime::FunctionRecord> record;
};

struct nrd_module {
  nereid::syntax::ModulePtr tree;
  std::vector<std::string> names;                                   ///< of its functions, in order
  llvm::StringMap<const nereid::syntax::FunctionDef *> definitions; ///< of these names
  nereid::runtime::TileSourcePtr tile;
};
