// nereid: the compiler from the shell. Thin: everything is done by libnereid.
#include "faces/cli/commands.h"
#include "faces/cli/selection.h"
#include "faces/cli/timing.h"
#include "nereid/nereid.h"
#include "nereid/settings.h"
#include "support/text.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

using namespace nereid;
using namespace nereid::cli;

static const Option benchOptions[] = {
    NEREID_CLI_COMPILE_OPTIONS,
    {"--arg", "NAME=VALUE", "an argument: n=4096, x=randn:4096x4096:fp16, s=n*2, MODE=relu"},
    {"--grid", "FORMULA", "the number of programs: cdiv(n, BLOCK), 1"},
    {"--config", "LIST",
     "arguments and compile options of one row: BLOCK=256, num_warps=8; may be repeated"},
    {"--checked", "", "check every memory access while running (on the CPU)"},
    NEREID_CLI_TIMING_OPTIONS,
    {"--bytes", "FORMULA", "bytes of a launch (default: computed from the kernel)"},
    {"--flops", "FORMULA", "operations of a launch (default: computed from the kernel)"},
    {"--csv", "", "print a table of comma-separated values"},
    {"--json", "", "print JSON"},
    {"-o", "FILE", "where to write (default: standard output)"},
    {"--help", "", "print this text"},
};
static const Option compileOptions[] = {
    {"--kernel", "NAME", "which function; not needed when the file has one"},
    {"--signature", "TEXT", "a type or value for each parameter, see below"},
    {"--target", "TARGET", NEREID_CLI_TARGETS " (default: cpu)", NEREID_CLI_TARGETS},
    {"--emit", "KIND",
     "tile, llir, meta, explain; cpu: loops, asm (default), obj, header; cuda: layouts, gpu, ptx "
     "(default), "
     "cubin, sass",
     "tile llir meta explain loops asm obj header layouts gpu ptx cubin sass"},
    {"-o", "FILE", "where to write (default: standard output; obj: NAME.o, cubin: NAME.cubin)"},
    {"--features", "SET",
     "of the CPU: native, graniterapids, sapphirerapids, avx512bf16, avx512, avx2, baseline, "
     "neoverse-v1, neoverse-n1, aarch64 (default: native)",
     NEREID_CLI_FEATURES},
    {"--num-warps", "N", "warps of a GPU program (default: 4)"},
    {"--num-stages", "N", "depth of pipelined loops on a GPU (default: 3)"},
    {"--maxnreg", "N", "maximum number of registers of a GPU thread"},
    {"--option", "NAME=VALUE", "a compile option as launches take it, e.g. num_warps=8"},
    {"--checked", "", "check every memory access while running"},
    {"--debug", "", "compile device_assert and overflow checks"},
    {"--strict", "", "reject programs that Triton rejects"},
    {"--verify", "", "verify the program after every pass"},
    {"--list", "", "list the functions of the file and their parameters"},
    {"--time-passes", "", "print the time of each stage and of each pass"},
    {"--print-after-changed", "", "print the program after each pass that changed it"},
    {"--help", "", "print this text"},
};
static const Option embedOptions[] = {
    {"--kernel", "NAME", "which function; not needed when the file has one"},
    {"--signature", "TEXT", "a type or value for each parameter; once for each variant"},
    {"--target", "TARGET",
     "cpu (baseline, avx2 and avx512), cpu:avx2..., cuda:90..., ptx:80...; once for each variant "
     "(default: cpu)"},
    {"-o", "PATH", "where to write: PATH.c, PATH.h and PATH.*.o (default: the kernel's name)"},
    {"--name", "NAME", "the kernel's name in C++ (default: its own)"},
    {"--namespace", "NAME", "the namespace in C++ (default: kernels)"},
    {"--option", "NAME=VALUE", "a compile option of all variants, e.g. num_warps=8"},
    {"--list-outputs", "", "print the files that would be written, and write none"},
    {"--help", "", "print this text"},
};
static const Option helpOnly[] = {{"--help", "", "print this text"}};
static const Option disasmOptions[] = {
    NEREID_CLI_COMPILE_OPTIONS,
    {"--signature", "TEXT", "a type or value for each parameter, as for `compile`"},
    {"--no-source", "", "omit the lines of the source"},
    {"-o", "FILE", "where to write (default: standard output)"},
    {"--help", "", "print this text"},
};
static const Option explainOptions[] = {
    NEREID_CLI_COMPILE_OPTIONS,
    {"--signature", "TEXT", "a type or value for each parameter, as for `compile`"},
    {"--arg", "NAME=VALUE",
     "an argument of a launch: n=4096, x=randn:4096x4096:fp16; instead of --signature, or with it"},
    {"--grid", "FORMULA", "the launch to estimate: cdiv(n, BLOCK), 1"},
    {"--measure", "", "also run that launch and time it"},
    {"--checked", "", "check every memory access while running (on the CPU)"},
    NEREID_CLI_TIMING_OPTIONS,
    {"--html", "FILE",
     "write an HTML page with drawings and the source next to all stages of the code"},
    {"--json", "", "print the whole report as JSON"},
    {"--help", "", "print this text"},
};
static const Option gradOptions[] = {
    {"--wrt", "NAMES", "the inputs to differentiate with respect to: parameters, with commas"},
    {"--out", "NAMES", "the outputs that are differentiated: parameters, with commas"},
    {"--partial", "NAMES",
     "inputs whose gradients are given as partial sums, a row for each launched program: "
     "parameters, "
     "with commas"},
    {"--outputs", "", "the gradient's code also writes everything that the kernel writes"},
    {"--mode", "MODE",
     "reverse (default): gradients of inputs from those of outputs; forward: tangents of outputs "
     "from those of inputs",
     "reverse forward"},
    {"--signature", "TEXT", "a type or value for each parameter, as for `compile`"},
    {"--emit", "KIND",
     "as for `compile` (default of reverse: how each gradient is summed and why, as text)",
     "tile llir meta explain loops asm obj header layouts gpu ptx cubin sass"},
    {"-o", "FILE", "where to write (default: standard output; obj: NAME.o, cubin: NAME.cubin)"},
    NEREID_CLI_COMPILE_OPTIONS,
    {"--checked", "", "check every memory access while running"},
    {"--help", "", "print this text"},
};
static const Option runOptions[] = {
    {"--python", "PROGRAM", "the interpreter (default: python3)"},
    {"--help", "", "print this text"},
};
static const Option cacheOptions[] = {
    {"--folder", "FOLDER", "use this folder instead of the configured one"},
    {"--json", "", "as JSON"},
    {"--help", "", "print this text"},
};
static const Option doctorOptions[] = {
    {"--json", "", "as JSON"},
    {"--python", "PROGRAM", "the interpreter to inspect (default: python3)"},
    {"--torch", "", "also try PyTorch's compiler on Nereid (takes seconds)"},
    {"--help", "", "print this text"},
};

static const Command commands[] = {
    {"bench", "FILE [options]", "time a kernel, in one or several configurations",
     "Tensors are filled by randn, rand, zeros, ones, arange, empty or randint(N); sizes may be\n"
     "formulas in brackets. Bytes count each tensor once.\n\n"
     "example:\n"
     "  nereid bench kernels.py --kernel add_kernel --arg n_elements=1048576 \\\n"
     "    --arg 'x_ptr=randn:(n_elements)' --arg 'y_ptr=randn:(n_elements)' \\\n"
     "    --arg 'output_ptr=empty:(n_elements)' --grid 'cdiv(n_elements, BLOCK_SIZE)' \\\n"
     "    --config BLOCK_SIZE=1024 --config 'BLOCK_SIZE=4096, num_warps=8'",
     benchOptions, kOneFile, benchCommand},
    {"cache",
     "[show|verify|clear|path] [options]",
     "show, check or clear the compiled kernels on disk",
     "show    each kernel with its target, size, age and signature (the default)\n"
     "verify  checks every file; status 1 when one is damaged (launches ignore damaged files)\n"
     "clear   removes everything\n"
     "path    prints the folder\n\n"
     "The folder is `kernels` in NEREID_CACHE_DIR, by default in ~/.cache/nereid.",
     cacheOptions,
     {0, 1, "ACTION", "show verify clear path"},
     cacheCommand},
    {"compile", "FILE [options]", "compile a kernel of a file ahead of time",
     "The signature has one entry for each parameter, separated by commas:\n"
     "  *fp32, *fp16, *i32...   a pointer; `*fp32:16` when it is always 16-byte aligned\n"
     "  i32, i64, u1, fp32...   a number; `i32:16` when it is always a multiple of 16\n"
     "  i32:1                   an integer that is always 1, folded into the code\n"
     "  1024, True, 'tf32'      the value of a constexpr parameter\n\n"
     "example:\n"
     "  nereid compile kernels.py --kernel add_kernel \\\n"
     "    --signature '*fp32:16, *fp32:16, *fp32:16, i32, 1024' --emit obj -o add.o\n"
     "  for a GPU: --target cuda:90 --num-warps 8 --emit cubin; the machine needs no GPU",
     compileOptions, kOneFile, compileCommand},
    {"completion",
     "bash|zsh|fish",
     "print a script for shell completion of commands and options",
     "bash:  eval \"$(nereid completion bash)\"          in ~/.bashrc\n"
     "zsh:   eval \"$(nereid completion zsh)\"           in ~/.zshrc, behind compinit\n"
     "fish:  nereid completion fish | source            in config.fish",
     helpOnly,
     {1, 1, "SHELL", "bash zsh fish"},
     completionCommand},
    {"disasm",
     "FILE... [options]",
     "disassemble a cubin, an object file or a kernel",
     "A file of kernels is compiled first. Code for GPUs needs NVIDIA's nvdisasm or cuobjdump.",
     disasmOptions,
     {1, ~0u, "FILE"},
     disasmCommand},
    {"doctor",
     "[options]",
     "report hardware, tools and packages found on this machine, and the settings in force",
     "",
     doctorOptions,
     {},
     doctorCommand},
    {"embed", "FILE --signature TEXT [options]",
     "compile a kernel into a program: objects, a table in C and a typed header",
     "Every signature is compiled for every target. Compile options of one signature follow `|`,\n"
     "and `on=cpu` or `on=cuda` restricts it to these targets:\n"
     "  '*fp16:16, *fp16:16, i32, 128 | num_warps=8, on=cuda'\n\n"
     "The files are compiled into a program that links libnereid_embedded.a; in CMake\n"
     "nereid_add_kernels() does all of that.",
     embedOptions, kOneFile, embedCommand},
    {"explain", "FILE [options]",
     "report how a kernel was compiled: layouts, registers, occupancy, advice",
     "example:\n"
     "  nereid explain kernels.py --kernel add_kernel --target cuda:90 --html add.html \\\n"
     "    --arg x_ptr=randn:1048576:fp32 --arg y_ptr=randn:1048576:fp32 \\\n"
     "    --arg output_ptr=empty:1048576:fp32 --arg n_elements=1048576 --arg BLOCK_SIZE=1024 \\\n"
     "    --grid 'cdiv(n_elements, BLOCK_SIZE)'",
     explainOptions, kOneFile, explainCommand},
    {"grad", "FILE --wrt NAMES --out NAMES --signature TEXT [options]",
     "differentiate a kernel: how gradients are summed, and the code",
     "The signature has the entries of the kernel. Those of gradients (or tangents), `d` and the\n"
     "name of their parameter, follow from these; or they are given behind them, those of `--wrt`\n"
     "first. Gradients of inputs are added to: they are 0 before the launch.\n\n"
     "example:\n"
     "  nereid grad kernels.py --kernel softmax --wrt x_ptr --out y_ptr \\\n"
     "    --signature '*fp32:16, *fp32:16, i32, 1024' --target cuda:90 --emit ptx",
     gradOptions, kOneFile, gradCommand},
    {"opt",
     "[arguments of mlir-opt]",
     "run passes by name on IR in text form",
     "For compiler developers: `nereid opt --help` lists passes and options.\n\n"
     "example:\n"
     "  nereid compile kernels.py --kernel add_kernel --emit tile \\\n"
     "    --signature '*fp32:16, *fp32:16, *fp32:16, i32, 1024' | nereid opt --tile-pipeline",
     {},
     {},
     nullptr,
     optCommand},
    {"run",
     "SCRIPT [arguments]",
     "run a Python script with `import triton` meaning Nereid",
     "The same as `python3 -m nereid SCRIPT ...`.",
     runOptions,
     {},
     nullptr,
     runCommand},
};

std::span<const Command> cli::allCommands() {
  return commands;
}

static std::string generalHelp() {
  std::string text = "nereid " + std::string(nrd_version()) +
                     ": Triton kernels compiled for CPUs and NVIDIA GPUs\n\nusage: nereid COMMAND "
                     "...\n\ncommands:\n";
  for (const Command &command : commands) {
    std::string left = "  " + std::string(command.name);
    left.resize(14, ' ');
    text += left + std::string(command.summary) + "\n";
  }
  return text + "\n`nereid COMMAND --help` prints the options of a command; `nereid --version` "
                "prints the version,\n"
                "`nereid --cmake-dir` prints the folder for CMake's nereid_DIR.\n";
}

/// The CMake package that is installed with this program: below the same prefix, or in the same
/// Python package.
static int printCmakeFolder() {
  std::error_code failed;
  std::filesystem::path root =
      std::filesystem::read_symlink("/proc/self/exe", failed).parent_path().parent_path();
  for (const char *folder : {NEREID_LIBDIR "/cmake/nereid", "cmake"})
    if (!failed && std::filesystem::exists(root / folder / "nereidConfig.cmake", failed)) {
      std::printf("%s\n", (root / folder).c_str());
      return 0;
    }
  DiagnosticEngine diagnostics;
  diagnostics.report(diag::CliNoPackage, {}, root.string());
  usageError(diagnostics);
  return 1;
}

/// Flushes the output; a failed write, as on a full disk, is an error.
static int finished(int status) {
  llvm::outs().flush();
  bool lost = std::fflush(stdout) != 0 || std::ferror(stdout);
  std::string why = lost ? std::strerror(errno) : "";
  if (llvm::outs().has_error()) {
    why = llvm::outs().error().message();
    llvm::outs().clear_error();
  }
  if (why.empty() || status) // what failed has been said
    return status;
  DiagnosticEngine diagnostics;
  diagnostics.report(diag::CannotWriteFile, {}, "standard output", why);
  usageError(diagnostics);
  return 1;
}

int main(int argc, char **argv) {
  // A reader that has seen enough (`nereid ... | head`) ends the program without a word.
  std::signal(SIGPIPE, SIG_DFL);
  std::vector<std::string> args(argv + 1, argv + argc);
  bool help = !args.empty() && args[0] == "help" && args.size() > 1;
  if (help) // of a command
    args.erase(args.begin());
  if (args.empty() || args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    std::fputs(generalHelp().c_str(), args.empty() ? stderr : stdout);
    return args.empty() ? 2 : finished(0);
  }
  if (args[0] == "--version") {
    std::printf("nereid %s\n", nrd_version());
    return finished(0);
  }
  if (args[0] == "--cmake-dir")
    return printCmakeFolder();
  auto command = std::ranges::find(commands, std::string_view(args[0]), &Command::name);
  if (command == std::end(commands)) {
    DiagnosticEngine diagnostics;
    std::vector<std::string_view> names;
    for (const Command &row : commands)
      names.push_back(row.name);
    std::string_view near = nearestName(args[0], names);
    if (near.empty())
      diagnostics.report(diag::CliUnknownCommand, {}, args[0]);
    else
      diagnostics.report(diag::CliUnknownCommandNear, {}, args[0], near);
    return usageError(diagnostics);
  }
  args.erase(args.begin());
  bool asked = !args.empty() && (args[0] == "--help" || args[0] == "-h");
  if (help || (asked && command->handOver != optCommand)) {
    std::fputs(helpText(*command).c_str(), stdout);
    return finished(0);
  }
  // The report about this machine shows what is wrong, and ends with an error as well.
  bool reports = command->name == "doctor";
  if (nrd_error *error = reports ? nullptr : nrd_check_settings())
    return failed(error);
  int status = finished(command->handOver ? command->handOver(*command, std::move(args))
                                          : runParsed(*command, args));
  nrd_error *error = reports && !status ? nrd_check_settings() : nullptr;
  return error ? failed(error) : status;
}
