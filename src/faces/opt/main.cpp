// nereid-opt: reads IR as text, runs the passes named on the command line, prints the result.
//
//   nereid-opt --tile-pipeline kernel.mlir
//   nereid-opt --combine --cse --mlir-print-ir-after-change kernel.mlir
#include "opt/Opt.h"

int main(int argc, char **argv) {
  return nereid::runOpt(argc, argv);
}
