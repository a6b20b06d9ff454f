// The files of an embedded kernel: its tables in C, and its typed header for C and C++.
#include "faces/cli/c_text.h"
#include "faces/cli/embed_tables.h"

#include "nereid/embedded.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cstring>

using namespace nereid;
using namespace nereid::cli;
namespace json = llvm::json;
using Kind = LaunchParam::Kind;

namespace {

/// A string literal of C.
std::string quoted(llvm::StringRef text) {
  std::string result = "\"";
  for (unsigned char c : text)
    if (c == '"' || c == '\\')
      (result += '\\') += char(c);
    else if (c < 32 || c >= 127)
      result += llvm::formatv("\\{0}{1}{2}", c >> 6, c >> 3 & 7, c & 7).str();
    else
      result += char(c);
  return result + "\"";
}

std::string cppType(const LaunchParam &param) {
  std::string element = elementType(param.element, true);
  std::string memory = (param.written ? "" : "const ") + element;
  switch (param.kind) {
  case Kind::Pointer:
    return "nereid::Pointer<" + memory + ">";
  case Kind::Descriptor:
    return "nereid::Descriptor<" + memory + ", " + llvm::utostr(param.rank) + ">";
  default:
    return "nereid::Number<" + element + ">";
  }
}

std::vector<LaunchParam> given(const LaunchGroup &group) {
  std::vector<LaunchParam> params;
  for (const LaunchParam &param : group.params)
    if (param.kind != Kind::Folded)
      params.push_back(param);
  return params;
}

std::string signatureLines(const LaunchGroup &group, llvm::StringRef indent) {
  std::string text, last;
  for (const EmbeddedVariant *variant : group.variants) {
    std::string signature = llvm::join(variant->signature, ", ");
    if (text.empty() || signature != last)
      text += (text.empty() ? "" : "\n") + indent.str() + "(" + signature + "): ";
    else
      text += ", ";
    text += variant->target;
    last = signature;
  }
  return text;
}

//===--- tables -------------------------------------------------------------------------------===//

uint64_t checksum(llvm::StringRef data) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : data)
    hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

class Tables {
public:
  Tables(const EmbeddedText &about, llvm::raw_ostream &out)
      : prefix("nereid_" + cPrefix(about)), about(about), out(out) {}

  void group(const LaunchGroup &group, size_t number) {
    std::string id = prefix + "_" + llvm::utostr(number);
    std::vector<LaunchParam> params = given(group);
    if (!params.empty()) {
      out << "static const nrd_embedded_param " << id << "_params[] = {\n";
      for (const LaunchParam &param : params)
        out << "    {" << quoted(param.name) << ", "
            << (param.kind == Kind::Pointer || param.kind == Kind::Descriptor) << ", "
            << param.slots() << ", {0}},\n";
      out << "};\n";
    }
    for (size_t i = 0; i < group.variants.size(); ++i)
      variant(*group.variants[i], group.facts[i], id + "_" + llvm::utostr(i));
    out << "static const nrd_embedded_variant " << id << "_variants[] = {\n";
    for (size_t i = 0; i < group.variants.size(); ++i) {
      std::string each = id + "_" + llvm::utostr(i);
      bool isCpu = group.variants[i]->isCpu();
      out << "    {" << (params.empty() ? "0" : each + "_facts") << ", "
          << (isCpu ? "&" + each + "_cpu" : "0") << ", " << (isCpu ? "0" : "&" + each + "_cuda")
          << "},\n";
    }
    out << "};\nstatic nrd_embedded_state " << id << "_states[" << group.variants.size() << "];\n"
        << "const nrd_embedded_kernel " << id << " = {\n    " << NRD_EMBEDDED_VERSION
        << ", sizeof(nrd_embedded_kernel), " << quoted(about.name) << ", "
        << (params.empty() ? "0" : id + "_params") << ", " << params.size() << ",\n    " << id
        << "_variants, " << group.variants.size() << ", " << id << "_states};\n\n";
  }

private:
  void variant(const EmbeddedVariant &variant, const std::vector<Fact> &facts,
               const std::string &id) {
    if (!facts.empty()) {
      out << "static const nrd_embedded_fact " << id << "_facts[] = {";
      for (const Fact &fact : facts)
        out << "{" << fact.kinds << ", 0, " << literal(fact.value) << "}, ";
      out << "};\n";
    }
    if (variant.isCpu())
      cpu(variant, id);
    else
      cuda(variant, id);
  }

  static std::string literal(int64_t value) {
    return value == INT64_MIN ? "INT64_MIN" : "INT64_C(" + llvm::itostr(value) + ")";
  }

  void cpu(const EmbeddedVariant &variant, const std::string &id) {
    const json::Object &meta = variant.metadata;
    size_t sites = 0;
    if (const json::Array *list = meta.getArray("sites")) {
      sites = list->size();
      siteTable(*list, id);
    }
    bool cooperative =
        meta.getObject("options")->getBoolean("launch_cooperative_grid").value_or(false);
    bool independent = meta.getBoolean("independent_programs").value_or(false);
    out << "extern void " << variant.symbol
        << "(const void *, void *, int64_t, int64_t, void *);\nstatic const nrd_embedded_cpu " << id
        << "_cpu = {NRD_CPU_" << llvm::StringRef(cLevel(variant.target)).upper() << ", "
        << (cooperative   ? "NRD_PROGRAMS_TOGETHER"
            : independent ? "NRD_PROGRAMS_INDEPENDENT"
                          : "NRD_PROGRAMS_IN_ORDER")
        << ", " << variant.symbol << ", " << meta.getInteger("scratch_bytes").value_or(0) << ", "
        << (sites ? id + "_sites" : "0") << ", " << sites << "};\n";
  }

  void siteTable(const json::Array &sites, const std::string &id) {
    for (size_t i = 0; i < sites.size(); ++i) {
      const json::Array &operands = *sites[i].getAsObject()->getArray("operands");
      if (operands.empty())
        continue;
      out << "static const nrd_embedded_operand " << id << "_site" << i << "[] = {";
      for (const json::Value &value : operands) {
        const json::Object &operand = *value.getAsObject();
        const json::Array &shape = *operand.getArray("shape");
        out << "{" << *operand.getInteger("kind") << ", " << shape.size() << ", {";
        for (const json::Value &size : shape)
          out << *size.getAsInteger() << ", ";
        out << (shape.empty() ? "0}}, " : "}}, ");
      }
      out << "};\n";
    }
    out << "static const nrd_embedded_site " << id << "_sites[] = {\n";
    for (size_t i = 0; i < sites.size(); ++i) {
      const json::Object &site = *sites[i].getAsObject();
      size_t count = site.getArray("operands")->size();
      out << "    {" << quoted(*site.getString("file")) << ", " << quoted(*site.getString("text"))
          << ", " << *site.getInteger("line") << ", " << *site.getInteger("column") << ", "
          << *site.getBoolean("hex") << ", " << count << ", "
          << (count ? id + "_site" + llvm::utostr(i) : "0") << "},\n";
    }
    out << "};\n";
  }

  void cuda(const EmbeddedVariant &variant, const std::string &id) {
    const json::Object &meta = variant.metadata;
    std::string image = variant.image;
    if (variant.isPtx())
      image += '\0'; // a text for the driver
    out << "static const uint64_t " << id << "_image[] = {";
    for (size_t at = 0; at < image.size(); at += 8) {
      uint64_t word = 0; // as a machine of little endian has it
      std::memcpy(&word, image.data() + at, std::min<size_t>(8, image.size() - at));
      out << (at % 48 ? " " : "\n    ") << "0x" << llvm::utohexstr(word) << ",";
    }
    out << "};\n";
    size_t maps = 0;
    if (const json::Array *plans = meta.getArray("tensor_map_plans")) {
      maps = plans->size();
      tensorMaps(*plans, id);
    }
    auto number = [&](const char *name, int64_t otherwise = 0) {
      return meta.getInteger(name).value_or(otherwise);
    };
    auto flag = [&](const char *name) { return meta.getBoolean(name).value_or(false); };
    out << "static const nrd_embedded_cuda " << id << "_cuda = {\n    " << number("arch") << ", "
        << flag("arch_specific") << ", " << variant.isPtx() << ", " << number("num_warps", 4)
        << ", " << number("num_ctas", 1) << ", " << flag("launch_cooperative_grid") << ", "
        << flag("launch_pdl") << ", 0, " << number("shared") << ", "
        << number("global_scratch_size") << ", " << quoted(*meta.getString("name")) << ", " << id
        << "_image, " << image.size() << ",\n    0x" << llvm::utohexstr(checksum(image)) << ", "
        << (maps ? id + "_maps" : "0") << ", " << maps << "};\n";
  }

  /// The steps of a number, as an array; gives what stands for the number in a table.
  std::string number(const json::Value &value, const std::string &id) {
    const json::Array &steps = *value.getAsArray();
    out << "static const nrd_embedded_step " << id << "[] = {";
    for (const json::Value &step : steps)
      out << "{" << *(*step.getAsArray())[0].getAsInteger() << ", 0, "
          << literal(*(*step.getAsArray())[1].getAsInteger()) << "}, ";
    out << "};\n";
    return "{" + id + ", " + llvm::utostr(steps.size()) + "}";
  }

  void tensorMaps(const json::Array &plans, const std::string &id) {
    std::string rows;
    for (size_t i = 0; i < plans.size(); ++i) {
      const json::Object &plan = *plans[i].getAsObject();
      std::string each = id + "_map" + llvm::utostr(i);
      auto list = [&](const char *name) {
        std::string text;
        const json::Array &numbers = *plan.getArray(name);
        for (size_t j = 0; j < numbers.size(); ++j)
          text += number(numbers[j], each + "_" + name + llvm::utostr(j)) + ", ";
        return "{" + (text.empty() ? "{0, 0}" : text) + "}";
      };
      std::string base = number(*plan.get("base"), each + "_base");
      std::string shape = list("shape"), strides = list("strides"), box;
      for (const json::Value &size : *plan.getArray("box"))
        box += llvm::itostr(*size.getAsInteger()) + ", ";
      rows += "    {" + quoted(*plan.getString("name"));
      for (const char *name : {"element", "element_bytes", "swizzle_bytes"})
        rows += ", " + llvm::itostr(*plan.getInteger(name));
      rows += ", " + llvm::utostr(*plan.getBoolean("pads_nan")) + ", " +
              llvm::utostr(plan.getBoolean("optional").value_or(false)) + ", " +
              llvm::utostr(plan.getArray("box")->size()) + ", {" + box + "}, " + base + ", " +
              shape + ", " + strides + "},\n";
    }
    out << "static const nrd_embedded_map " << id << "_maps[] = {\n" << rows << "};\n";
  }

  std::string prefix;
  const EmbeddedText &about;
  llvm::raw_ostream &out;
};

//===--- header -------------------------------------------------------------------------------===//

/// Parameters and the filling of slots, in C.
void cLaunch(const EmbeddedText &about, const LaunchGroup &group, size_t number,
             llvm::raw_ostream &out) {
  std::string id = "nereid_" + cPrefix(about) + "_" + llvm::utostr(number), list, fill;
  unsigned slot = 0;
  auto scalar = [&](const std::string &type, const std::string &name, bool isFloat) {
    list += ", " + type + " " + name;
    std::string target = "nereid_slots[" + llvm::utostr(slot++) + "]";
    fill += isFloat ? "  memcpy(&" + target + ", &" + name + ", sizeof " + name + ");\n"
                    : "  " + target + " = (uint64_t)(int64_t)" + name + ";\n";
  };
  for (const LaunchParam &param : given(group)) {
    std::string element = elementType(param.element, false);
    std::string name = cName(param.name);
    if (param.kind == Kind::Pointer || param.kind == Kind::Descriptor) {
      list += std::string(", ") + (param.written ? "" : "const ") + element + " *" + name;
      fill += "  nereid_slots[" + llvm::utostr(slot++) + "] = (uint64_t)(uintptr_t)" + name + ";\n";
      for (unsigned i = 0; i < param.rank; ++i)
        scalar("int32_t", name + "_size" + llvm::utostr(i), false);
      for (unsigned i = 0; i + 1 < param.rank; ++i)
        scalar("int64_t", name + "_stride" + llvm::utostr(i), false);
    } else {
      scalar(element, name, param.kind == Kind::Float);
    }
  }
  out << "extern const nrd_embedded_kernel " << id << ";\n"
      << "/* Launches; `nereid_how` begins with its size, see nereid/embedded.h. */\n"
      << "static inline nrd_status " << cPrefix(about) << "_launch"
      << (number ? "_" + llvm::utostr(number) : "") << "(const nrd_embedded_launch *nereid_how"
      << list << ") {\n  uint64_t nereid_slots[" << std::max(slot, 1u) << "] = {0};\n"
      << fill << "  if (" << id << ".version != NRD_EMBEDDED_VERSION)\n"
      << "    return nrd_embedded_other_version(&" << id << ", NRD_EMBEDDED_VERSION);\n"
      << "  return nrd_embedded_run(&" << id << ", nereid_how, nereid_slots);\n}\n\n";
}

/// A constant of C++ from one of Python; nothing for what C++ has no word for.
std::string cppConstant(const LaunchParam &param) {
  llvm::StringRef text = param.constant;
  double real;
  int64_t integer;
  if (text == "True" || text == "False")
    return "bool " + cName(param.name) + " = " + text.lower();
  if (!text.getAsInteger(0, integer))
    return "int64_t " + cName(param.name) + " = " + llvm::itostr(integer);
  if (!text.empty() && (llvm::isDigit(text.back()) || text.back() == '.') &&
      !text.getAsDouble(real))
    return "double " + cName(param.name) + " = " + text.str();
  if (text.size() > 1 && (text[0] == '\'' || text[0] == '"'))
    return "const char *" + cName(param.name) + " = " + quoted(text.drop_front().drop_back());
  return "";
}

void cppLaunch(const EmbeddedText &about, const LaunchGroup &group, size_t number,
               llvm::raw_ostream &out) {
  std::string id = "nereid_" + cPrefix(about) + "_" + llvm::utostr(number), list, names;
  for (const LaunchParam &param : given(group)) {
    list += ", " + cppType(param) + " " + cName(param.name);
    names += ", " + cName(param.name);
  }
  out << "  /// Variants:\n" << signatureLines(group, "  ///   ") << "\n";
  for (auto [method, function] : {std::pair("tryLaunch", "nrd_embedded_run"),
                                  std::pair("tryPrepare", "nrd_embedded_prepare")})
    out << "  nereid::Status " << method << "(const nereid::Launch &nereid_how" << list
        << ") const {\n    return nereid::embedded::call(&" << function << ", " << id
        << ", nereid_how" << names << ");\n  }\n";
  // Each with its own parameters, so that a compiler says which argument is of a wrong kind.
  out << "  void operator()(const nereid::Launch &nereid_how" << list
      << ") const {\n    tryLaunch(nereid_how" << names << ").value();\n  }\n"
      << "  void operator()(nereid::Grid nereid_grid, const nereid::Stream &nereid_stream" << list
      << ") const {\n    tryLaunch(nereid::Launch(nereid_grid, nereid_stream)" << names
      << ").value();\n  }\n"
      << "  void prepare(const nereid::Launch &nereid_how" << list
      << ") const {\n    tryPrepare(nereid_how" << names << ").value();\n  }\n";
}

} // namespace

std::string cli::cLevel(const std::string &target) {
  std::string name = llvm::StringRef(target).split(':').second.str();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string cli::cPrefix(const EmbeddedText &about) {
  std::string text = about.space + (about.space.empty() ? "" : "_") + about.name;
  size_t at;
  while ((at = text.find("::")) != std::string::npos)
    text.replace(at, 2, "_");
  return text;
}

std::string cli::tablesText(const EmbeddedText &about, const std::vector<LaunchGroup> &groups) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "/* The kernel `" << about.kernel << "` of " << about.source
      << ", compiled by Nereid: made by `nereid embed`. */\n"
      << "#define NEREID_EMBEDDED_TABLES\n#include \"" << about.fileName
      << "\"\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";
  Tables tables(about, out);
  for (size_t i = 0; i < groups.size(); ++i)
    tables.group(groups[i], i);
  out << "#ifdef __cplusplus\n}\n#endif\n";
  return text;
}

std::string cli::typedHeaderText(const EmbeddedText &about,
                                 const std::vector<LaunchGroup> &groups) {
  std::string guard = "NEREID_EMBEDDED_" + llvm::StringRef(cPrefix(about)).upper() + "_H";
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "/* The kernel `" << about.kernel << "` of " << about.source
      << ", compiled by Nereid: made by `nereid embed`. */\n"
      << "#ifndef " << guard << "\n#define " << guard << "\n\n#include <nereid/embedded.h>\n"
      << "#include <string.h>\n\n#if NRD_EMBEDDED_VERSION != " << NRD_EMBEDDED_VERSION
      << "\n#error \"this file was made for form " << NRD_EMBEDDED_VERSION
      << " of <nereid/embedded.h>, whose NRD_EMBEDDED_VERSION is another one: make it again with "
         "the `nereid embed` of these headers\"\n#endif\n\n#ifdef __cplusplus\nextern \"C\" "
         "{\n#endif\n\n";
  for (size_t i = 0; i < groups.size(); ++i)
    cLaunch(about, groups[i], i, out);
  out << "#ifdef __cplusplus\n}\n#endif\n\n#if __cplusplus >= 202002L && "
         "!defined(NEREID_EMBEDDED_TABLES)\n#include <nereid/embedded.hpp>\n\n";
  if (!about.space.empty())
    out << "namespace " << about.space << " {\n\n";
  std::string type = about.name + "_kernel";
  out << "/// The kernel `" << about.kernel << "`: call `" << about.name
      << "`, with the grid (and a stream) first.\n"
      << "struct " << type << " {\n";
  // Constants that all groups agree on.
  for (size_t i = 0; i < groups.front().params.size(); ++i) {
    const LaunchParam &param = groups.front().params[i];
    bool everywhere = true;
    for (const LaunchGroup &group : groups)
      everywhere &=
          group.params[i].kind == Kind::Folded && group.params[i].constant == param.constant;
    std::string constant = everywhere ? cppConstant(param) : "";
    if (!constant.empty())
      out << "  static constexpr " << constant << "; ///< compiled in\n";
  }
  for (size_t i = 0; i < groups.size(); ++i)
    cppLaunch(about, groups[i], i, out);
  out << "};\n/// Launches; throws nereid::Error.\ninline constexpr " << type << " " << about.name
      << "{};\n\n";
  if (!about.space.empty())
    out << "} // namespace " << about.space << "\n";
  out << "#endif\n#endif\n";
  return text;
}
