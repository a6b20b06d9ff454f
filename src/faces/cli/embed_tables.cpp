#include "faces/cli/embed_tables.h"

#include "embedded/launch.h"

#include "nereid/embedded.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <map>

using namespace nereid;
using namespace nereid::cli;

namespace {

/// One parameter as one signature has it.
struct Entry {
  LaunchParam::Kind kind = LaunchParam::Kind::Folded;
  std::string element; ///< see LaunchParam
  unsigned rank = 0;
  bool isMultiple = false;
  bool isConstant = false; ///< folded into the code by this signature
  std::string constant;    ///< as Python writes it
};

std::optional<int64_t> integerOf(llvm::StringRef text) {
  int64_t value;
  if (text == "True" || text == "False")
    return text == "True";
  return text.getAsInteger(0, value) ? std::nullopt : std::optional(value);
}

Entry parseEntry(llvm::StringRef text, bool isConstant) {
  using Kind = LaunchParam::Kind;
  Entry entry;
  text = text.trim();
  entry.isConstant = isConstant;
  if (text.consume_front("tensordesc<")) {
    auto [element, block] = text.split('[');
    entry.kind = Kind::Descriptor;
    entry.element = element.trim().str();
    entry.rank = unsigned(block.take_until([](char c) { return c == ']'; }).count(',') + 1);
    entry.isMultiple = text.ends_with(":16");
    return entry;
  }
  auto [type, facts] = text.split(':');
  type = type.trim();
  facts = facts.trim();
  bool isInteger = type.size() > 1 && (type[0] == 'i' || type[0] == 'u') &&
                   llvm::all_of(type.drop_front(), llvm::isDigit);
  if (type.consume_front("*")) {
    type.consume_front("k");
    entry.kind = Kind::Pointer;
    entry.element = type.str();
  } else if (isInteger) {
    entry.kind = type == "u1" || type == "i1" ? Kind::Bool : Kind::Integer;
    entry.element = type.str();
    if (facts == "1")
      entry.constant = "1";
  } else if (type.starts_with("fp") || type == "bf16") {
    entry.kind = Kind::Float;
    entry.element = type.str();
  } else {
    entry.constant = text.str(); // a literal
  }
  entry.isMultiple = facts.starts_with("16");
  return entry;
}

unsigned bitsOf(llvm::StringRef integer) {
  unsigned bits = 64;
  integer.drop_front().getAsInteger(10, bits);
  return bits;
}

/// The integer type that holds both.
std::string widest(const std::string &a, const std::string &b) {
  unsigned bits = std::max(bitsOf(a), bitsOf(b));
  if (a[0] == b[0])
    return a[0] + llvm::utostr(bits);
  unsigned unsignedBits = bitsOf(a[0] == 'u' ? a : b);
  return "i" + llvm::utostr(unsignedBits < bits ? bits : std::min(64u, 2 * unsignedBits));
}

/// Whether a launch that takes the one can take the other: pointers and descriptors must be equal.
bool isSameAddress(const Entry &a, const Entry &b) {
  using Kind = LaunchParam::Kind;
  bool hasA = a.kind == Kind::Pointer || a.kind == Kind::Descriptor;
  bool hasB = b.kind == Kind::Pointer || b.kind == Kind::Descriptor;
  if (!hasA || !hasB) // None stands for any pointer
    return (!hasA && !hasB) || (hasA ? b : a).constant == "None";
  return a.kind == b.kind && a.element == b.element && a.rank == b.rank;
}

using Entries = std::vector<Entry>;

std::string nameOf(const EmbeddedVariant &variant, size_t param) {
  const llvm::json::Array &params = *variant.metadata.getArray("params");
  return params[param].getAsObject()->getString("name")->str();
}

/// What the signatures of a group have in common.
class Merger {
public:
  Merger(LaunchGroup &group, const std::vector<Entries> &entries, DiagnosticEngine &diagnostics)
      : group(group), entries(entries), diagnostics(diagnostics) {}

  void run() {
    group.facts.resize(group.variants.size());
    for (size_t i = 0; i < entries.front().size(); ++i)
      merge(i);
  }

private:
  void merge(size_t index) {
    using Kind = LaunchParam::Kind;
    LaunchParam param;
    param.name = nameOf(*group.variants.front(), index);
    bool allFolded = true, sameConstant = true, constexprs = true;
    const Entry &first = entries.front()[index];
    for (size_t v = 0; v < entries.size(); ++v) {
      const Entry &entry = entries[v][index];
      allFolded &= entry.isConstant;
      sameConstant &= entry.isConstant && entry.constant == first.constant;
      if (entry.kind != Kind::Folded) {
        constexprs = false;
        mergeType(param, entry);
      }
      const llvm::json::Array &params = *group.variants[v]->metadata.getArray("params");
      param.written |= params[index].getAsObject()->getBoolean("written").value_or(false);
    }
    if (allFolded && sameConstant) {
      param.kind = Kind::Folded;
      param.constant = first.constant;
      group.params.push_back(std::move(param));
      return;
    }
    if (constexprs && !mergeConstants(param, index))
      return;
    bool isAddress = param.kind == Kind::Pointer || param.kind == Kind::Descriptor;
    for (size_t v = 0; v < entries.size(); ++v) {
      const Entry &entry = entries[v][index];
      if (!isAddress && entry.constant == "None")
        diagnostics.report(diag::EmbedAmbiguous, {}, param.name, param.element, entry.constant);
    }
    bool mayBeNull = false;
    for (const Entries &signature : entries)
      mayBeNull |= isAddress && signature[index].isConstant;
    for (size_t v = 0; v < entries.size(); ++v) {
      Fact fact = factOf(param, entries[v][index]);
      if (mayBeNull && !entries[v][index].isConstant)
        fact.kinds |= NRD_FACT_NOT_NULL;
      group.facts[v].push_back(fact);
    }
    group.params.push_back(std::move(param));
  }

  void mergeType(LaunchParam &param, const Entry &entry) {
    using Kind = LaunchParam::Kind;
    bool isFirst = param.kind == Kind::Folded;
    if (isFirst) {
      param.kind = entry.kind;
      param.element = entry.element;
      param.rank = entry.rank;
    } else if (param.kind == Kind::Integer && entry.kind == Kind::Integer) {
      param.element = widest(param.element, entry.element);
    } else if (param.kind != entry.kind || param.element != entry.element) {
      diagnostics.report(diag::EmbedAmbiguous, {}, param.name, param.element, entry.element);
    }
  }

  /// Several values of a constexpr: a number that the launch is given.
  bool mergeConstants(LaunchParam &param, size_t index) {
    bool isBool = true;
    for (const Entries &signature : entries) {
      const std::string &text = signature[index].constant;
      if (!integerOf(text)) {
        const std::string &other = entries.front()[index].constant;
        diagnostics.report(diag::EmbedConstant, {}, param.name, other,
                           text == other ? entries.back()[index].constant : text);
        return false;
      }
      isBool &= text == "True" || text == "False";
    }
    param.kind = isBool ? LaunchParam::Kind::Bool : LaunchParam::Kind::Integer;
    param.element = isBool ? "u1" : "i64";
    return true;
  }

  Fact factOf(const LaunchParam &param, const Entry &entry) {
    Fact fact;
    if (entry.isConstant) {
      fact.kinds = NRD_FACT_EQUALS;
      fact.value = integerOf(entry.constant).value_or(0); // None: a null pointer
      return fact;
    }
    if (entry.isMultiple)
      fact.kinds |= NRD_FACT_MULTIPLE_OF_16;
    if (param.kind == LaunchParam::Kind::Integer && entry.element != param.element) {
      fact.kinds |= entry.element[0] == 'u' ? NRD_FACT_UNSIGNED : NRD_FACT_SIGNED;
      fact.value = bitsOf(entry.element);
    }
    return fact;
  }

  LaunchGroup &group;
  const std::vector<Entries> &entries;
  DiagnosticEngine &diagnostics;
};

/// Reports what does not fit into the arrays of the small run time.
void checkSize(const LaunchGroup &group, DiagnosticEngine &diagnostics) {
  int64_t slots = 0, maps = 0;
  for (const LaunchParam &param : group.params)
    slots += param.kind == LaunchParam::Kind::Folded ? 0 : param.slots();
  for (const EmbeddedVariant *variant : group.variants)
    if (const llvm::json::Array *plans = variant->metadata.getArray("tensor_map_plans"))
      maps = std::max(maps, int64_t(plans->size()));
  auto check = [&](int64_t found, const char *what, int64_t most) {
    if (found > most)
      diagnostics.report(diag::EmbedTooLarge, {},
                         *group.variants.front()->metadata.getString("name"), found, what, most);
  };
  check(slots, "words of arguments", embedded::maxSlots);
  check(maps, "tensor maps", embedded::maxMaps);
}

} // namespace

std::vector<LaunchGroup> cli::groupVariants(const std::vector<EmbeddedVariant> &variants,
                                            DiagnosticEngine &diagnostics) {
  std::vector<LaunchGroup> groups;
  std::vector<std::vector<Entries>> entries; // of each group, of each of its variants
  for (const EmbeddedVariant &variant : variants) {
    Entries mine;
    const llvm::json::Array &params = *variant.metadata.getArray("params");
    for (size_t i = 0; i < variant.signature.size(); ++i) {
      const llvm::json::Object &param = *params[i].getAsObject();
      mine.push_back(parseEntry(variant.signature[i], *param.getBoolean("constant")));
    }
    size_t at = 0;
    auto fits = [&](const Entries &other) {
      return llvm::all_of(llvm::zip_equal(mine, other), [](auto pair) {
        return isSameAddress(std::get<0>(pair), std::get<1>(pair));
      });
    };
    while (at < groups.size() && !llvm::all_of(entries[at], fits))
      ++at;
    if (at == groups.size()) {
      groups.emplace_back();
      entries.emplace_back();
    }
    groups[at].variants.push_back(&variant);
    entries[at].push_back(std::move(mine));
  }
  for (auto [group, signatures] : llvm::zip_equal(groups, entries))
    Merger(group, signatures, diagnostics).run();
  if (!diagnostics.hasErrors())
    for (const LaunchGroup &group : groups)
      checkSize(group, diagnostics);
  return groups;
}
