// What the option `gradient_facts` compiles: a gradient kernel without machine code, whose metadata
// tells how each gradient is summed.
#pragma once

#include "support/gradient_facts.h"
#include "targets/target.h"

namespace nereid::runtime {

class FactsOnly final : public targets::CompiledKernel {
public:
  /// From what `save` wrote; null when it is damaged.
  static std::unique_ptr<FactsOnly> restore(ByteReader &in);

  std::vector<GradientCondition> conditions;
  std::string tile; ///< the gradient before the tile passes, when stages are kept

  void *entry() const override { return nullptr; }
  std::vector<std::string> stages() const override { return {"tile"}; }
  std::optional<std::string> text(llvm::StringRef stage, std::string &why) const override;
  std::optional<std::string> object(std::string &why) const override;
  bool save(ByteWriter &out) const override;
};

} // namespace nereid::runtime
