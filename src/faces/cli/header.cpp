#include "faces/cli/header.h"

#include "faces/cli/c_text.h"

#include "nereid/embedded.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

#include <cctype>

using namespace nereid;
using namespace nereid::cli;
namespace json = llvm::json;

/// The C type of a parameter by its signature text.
static std::string cType(llvm::StringRef signature) {
  llvm::StringRef type = signature.split(':').first;
  bool pointer = type.consume_front("*");
  bool isConst = pointer && type.consume_front("k");
  // A pointer to pointers is one to their bits.
  std::string name = type.starts_with("*") ? "uint64_t" : elementType(type, false);
  return (isConst ? "const " : "") + name + (pointer ? " *" : " ");
}

/// For what stands in a comment.
static std::string withoutCommentEnd(std::string text) {
  for (size_t at = 0; (at = text.find("*/", at)) != std::string::npos;)
    text.insert(at + 1, " ");
  return text;
}

/// The parameters in C, with their names: a descriptor is its base, its sizes, and its strides but
/// the last.
static std::vector<std::pair<std::string, std::string>> cParams(llvm::StringRef signature,
                                                                const std::string &name) {
  if (!signature.consume_front("tensordesc<"))
    return {{cType(signature), name}};
  auto [element, block] = signature.split('[');
  size_t rank = block.take_until([](char c) { return c == ']'; }).count(',') + 1;
  std::vector<std::pair<std::string, std::string>> params{{cType("*" + element.str()), name}};
  for (size_t i = 0; i < rank; ++i)
    params.push_back({"int32_t ", name + "_size" + llvm::utostr(i)});
  for (size_t i = 0; i + 1 < rank; ++i)
    params.push_back({"int64_t ", name + "_stride" + llvm::utostr(i)});
  return params;
}

/// C: asks for the tile registers.
static constexpr const char *tileRequest =
    "#ifndef NEREID_HAS_TILES\n#define NEREID_HAS_TILES\n"
    "/* Whether this process may use the tile registers of AMX. The first call asks Linux for "
    "them. "
    "*/\n"
    "static inline int nereid_has_tiles(void) {\n"
    "  static int known = -1;\n"
    "  int has = __atomic_load_n(&known, __ATOMIC_RELAXED);\n"
    "  if (has < 0) {\n"
    "    has = syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* XTILEDATA */) == "
    "0;\n"
    "    __atomic_store_n(&known, has, __ATOMIC_RELAXED);\n"
    "  }\n"
    "  return has;\n"
    "}\n#endif\n\n";

std::string cli::targetOf(const std::string &metadata) {
  auto parsed = json::parse(metadata);
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return "";
  }
  return parsed->getAsObject()->getString("target").value_or("").str();
}

std::string cli::headerText(const std::string &metadata) {
  auto parsed = json::parse(metadata);
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return "";
  }
  const json::Object &object = *parsed->getAsObject();
  std::string name = object.getString("name").value_or("kernel").str();
  std::string guard = llvm::StringRef(name).upper() + "_NEREID_H";
  int64_t scratch = object.getInteger("scratch_bytes").value_or(0);
  bool checked = object.getBoolean("checked").value_or(false);

  std::string list, packing, constants;
  unsigned slots = 0;
  for (const json::Value &value : *object.getArray("params")) {
    const json::Object &param = *value.getAsObject();
    std::string paramName = param.getString("name")->str();
    std::string signature = param.getString("signature")->str();
    if (*param.getBoolean("constant")) {
      constants += " *   " + paramName + " = " + withoutCommentEnd(signature) + "\n";
      continue;
    }
    for (auto &[type, each] : cParams(signature, cName(paramName))) {
      list += ", " + type + each;
      packing += "  memcpy(&nereid_slots[" + llvm::utostr(slots++) + "], &" + each + ", sizeof " +
                 each + ");\n";
    }
  }
  if (checked) {
    // The extents of the pointers are not known here: everything may be touched.
    for (const json::Value &value : *object.getArray("params")) {
      const json::Object &param = *value.getAsObject();
      llvm::StringRef signature = *param.getString("signature");
      bool hasAddress = signature.starts_with("*") || signature.starts_with("tensordesc");
      if (!*param.getBoolean("constant") && hasAddress) {
        packing += "  nereid_slots[" + llvm::utostr(slots + 1) + "] = INT64_MAX;\n";
        slots += 2;
      }
    }
  }
  bool tiles = object.getBoolean("uses_tiles").value_or(false);
  std::string features = object.getString("features").value_or("native").str();
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "/* " << name << ", compiled by Nereid for " << features << ".\n"
      << " *\n"
      << " * " << name
      << "_launch runs the programs of a grid on the calling thread, in order. To spread them\n"
      << " * over threads, call the entry for parts of [0, grid_x*grid_y*grid_z): each call needs "
         "its own\n"
      << " * scratch memory (" << scratch << " bytes, 64-byte aligned; null will do for 0).\n";
  if (tiles)
    out << " *\n * The kernel has products of AMX tiles. Linux gives their registers to a process "
           "that asks:\n"
           " * call nereid_has_tiles() before the entry, as the launch does.\n";
  if (!constants.empty())
    out << " *\n * Compiled in:\n" << constants;
  out << " *\n * Define NEREID_SUPPORT in one file that includes this, when the kernel asserts or "
         "waits: the\n"
      << " * default then prints and aborts.\n */\n"
      << "#ifndef " << guard << "\n#define " << guard << "\n\n"
      << "#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
      << (tiles ? "#include <sys/syscall.h>\n#include <unistd.h>\n\n" : "\n")
      << "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
      << "#ifndef NEREID_LAUNCH_INFO\n#define NEREID_LAUNCH_INFO " << NRD_EMBEDDED_VERSION << "\n"
      << "typedef struct nereid_launch_info {\n  int32_t grid[3];\n  int32_t reserved;\n"
      << "  const void *sites;\n  void *launch;\n} nereid_launch_info;\n"
      << "#elif NEREID_LAUNCH_INFO != " << NRD_EMBEDDED_VERSION
      << "\n#error \"headers of kernels that were compiled by different versions of Nereid cannot "
         "be "
         "included together: compile the kernels again\"\n#endif\n\n"
      << (tiles ? tileRequest : "")
      << "/* Runs programs [begin, end); arguments are slots of 8 bytes. */\n"
      << "void " << name
      << "(const void *args, nereid_launch_info *info, int64_t begin, int64_t end,\n"
      << "     void *scratch);\n\n"
      << "/* 0, or -1 when there is no memory"
      << (tiles ? ", -3 when Linux refuses the tile registers" : "") << ". */\n"
      << "static inline int " << name
      << "_launch(int32_t nereid_grid_x, int32_t nereid_grid_y, int32_t "
         "nereid_grid_z"
      << list << ") {\n"
      << "  uint64_t nereid_slots[" << std::max(slots, 1u) << "] = {0};\n"
      << "  nereid_launch_info nereid_info = {{nereid_grid_x, nereid_grid_y, nereid_grid_z}, 0, 0, "
         "0};\n"
      << "  void *nereid_scratch = 0;\n";
  if (tiles)
    out << "  if (!nereid_has_tiles())\n    return -3;\n";
  if (scratch)
    out << "  if (posix_memalign(&nereid_scratch, 64, " << scratch << "))\n    return -1;\n";
  out << packing << "  " << name << "(nereid_slots, &nereid_info, 0,\n"
      << "    (int64_t)nereid_grid_x * nereid_grid_y * nereid_grid_z, nereid_scratch);\n";
  if (scratch)
    out << "  free(nereid_scratch);\n";
  out << "  return 0;\n}\n\n"
      << "#if defined(NEREID_SUPPORT) && !defined(NEREID_SUPPORT_DEFINED)\n#define "
         "NEREID_SUPPORT_DEFINED\n"
      << "void nereid_cpu_fail(nereid_launch_info *info, int64_t program, int32_t kind, int32_t "
         "site,\n"
      << "                     int64_t a, int64_t b, int64_t c) {\n"
      << "  (void)info, (void)kind, (void)site, (void)a, (void)b, (void)c;\n"
      << "  fprintf(stderr, \"kernel failed in program %lld\\n\", (long long)program);\n  "
         "abort();\n}\n"
      << "void nereid_cpu_spin(nereid_launch_info *info) { (void)info; }\n"
      << "void nereid_cpu_print(nereid_launch_info *info, int64_t program, int32_t site, int32_t "
         "operand,\n"
      << "                      const void *data) {\n"
      << "  (void)info, (void)program, (void)site, (void)operand, (void)data;\n}\n#endif\n\n"
      << "#ifdef __cplusplus\n}\n#endif\n#endif\n";
  return text;
}
