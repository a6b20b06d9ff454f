// What `compile`, `explain` and `bench` have in common: a function of a file, and compile options.
#pragma once
#include "faces/cli/options.h"
#include "faces/cli/signature.h"

namespace nereid::cli {

/// Options of these commands that say what is compiled and how; to be part of their tables.
/// What a shell offers for `--target` and `--features`.
#define NEREID_CLI_TARGETS                                                                         \
  "cpu, cpu:baseline, cpu:avx2, cpu:avx512, cpu:avx512bf16, cpu:sapphirerapids, "                  \
  "cpu:graniterapids, cuda, cuda:80, cuda:86, cuda:87, "                                           \
  "cuda:89, cuda:90, "                                                                             \
  "cuda:100, cuda:103, cuda:120, cuda:121"
#define NEREID_CLI_FEATURES                                                                        \
  "native graniterapids sapphirerapids avx512bf16 avx512 avx2 baseline "                           \
  "neoverse-v1 neoverse-n1 aarch64"
#define NEREID_CLI_COMPILE_OPTIONS                                                                 \
  {"--kernel", "NAME", "which function; not needed when the file has one"},                        \
      {"--target", "TARGET", NEREID_CLI_TARGETS " (default: what launches take here)",             \
       NEREID_CLI_TARGETS},                                                                        \
      {"--features", "SET",                                                                        \
       "of the CPU: native, graniterapids, sapphirerapids, avx512bf16, avx512, avx2, baseline, "   \
       "neoverse-v1, neoverse-n1, aarch64 (default: native)",                                      \
       NEREID_CLI_FEATURES},                                                                       \
      {"--num-warps", "N", "warps of a GPU program (default: 4)"},                                 \
      {"--num-stages", "N", "depth of pipelined loops on a GPU (default: 3)"},                     \
      {"--maxnreg", "N", "registers of a GPU thread at most"},                                     \
      {"--option", "NAME=VALUE", "a compile option as launches take it, e.g. num_warps=8"}

struct Selection {
  ModuleHandle module;
  FunctionHandle function;
  std::string kernel; ///< its name
};

/// The default target of a command.
enum class DefaultTarget : uint8_t { Cpu, OfLaunches };

/// Loads the file that is the command's first positional argument, and chooses the function. 0, or
/// the exit status when it has printed what is wrong.
int select(const Arguments &parsed, Selection &out);
/// And reads the compile options.
int select(const Arguments &parsed, DefaultTarget target, Selection &out, OptionsHandle &options);
/// Only the file.
int loadFile(const Arguments &parsed, ModuleHandle &out);

/// The compile options on the command line; 0 or the exit status. `--target cpu:avx2` is the CPU
/// with these features.
int readOptions(const Arguments &parsed, DefaultTarget target, OptionsHandle &out);
/// For code that other programs launch: a program has the blocks and warps that were asked for,
/// whatever the compiler would choose, unless `--option clusters=` says otherwise.
int keepLaunch(const Arguments &parsed, nrd_options *options);
nrd_error *setOption(nrd_options *options, const std::string &key, const std::string &text);
/// Whether the target is a GPU: by the option, else that of launches on this machine.
bool targetsGpu(const Arguments &parsed);

/// Compiles the function for a signature, an entry for each parameter.
nrd_error *compileKernel(nrd_function *function, const std::vector<std::string> &signature,
                         nrd_options *options, KernelHandle &out);

/// The whole of a stage; false when there is none, with what went wrong in `why` (may be null).
bool readStage(nrd_kernel *kernel, const char *stage, std::string &out, std::string *why = nullptr);

} // namespace nereid::cli
