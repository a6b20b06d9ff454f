#include "runtime/facts_only.h"

#include "support/bytes.h"

using namespace nereid;
using namespace nereid::runtime;

std::unique_ptr<FactsOnly> FactsOnly::restore(ByteReader &in) {
  auto kernel = std::make_unique<FactsOnly>();
  kernel->restoreCommon(in);
  in.list([&] {
    std::string id(in.text());
    kernel->conditions.push_back({std::move(id), std::string(in.text())});
  });
  return in.ok() ? std::move(kernel) : nullptr;
}

std::optional<std::string> FactsOnly::text(llvm::StringRef stage, std::string &) const {
  return stage == "tile" && !tile.empty() ? std::optional(tile) : std::nullopt;
}

std::optional<std::string> FactsOnly::object(std::string &why) const {
  why = "the kernel was compiled with `gradient_facts` and has no machine code";
  return std::nullopt;
}

bool FactsOnly::save(ByteWriter &out) const {
  saveCommon(out);
  out.list(conditions, [&](const GradientCondition &condition) {
    out.text(condition.id);
    out.text(condition.steps);
  });
  return true;
}
