// Prints a C source that defines every function of the device library under its name, as a jump
// through the table: embedded objects are linked to them, where loaded ones are given addresses.
#include "targets/cpu/support_library/DeviceLibrary.h"

#include <cstdio>

int main() {
  std::printf(
      "/* Made by src/embedded/device_symbols.cpp. */\n"
      "#if defined(__x86_64__)\n"
      "#define JUMP(name, number) \\\n"
      "  __asm__(\".text\\n.globl \" name \"\\n.type \" name \", @function\\n\" name \":\\n\" \\\n"
      "          \"jmp *nereid_device_table+\" #number \"*16+8(%%rip)\\n\");\n"
      "#elif defined(__aarch64__)\n"
      "#define JUMP(name, number) \\\n"
      "  __asm__(\".text\\n.globl \" name \"\\n.type \" name \", %%function\\n\" name \":\\n\" \\\n"
      "          \"adrp x16, nereid_device_table\\n\" \\\n"
      "          \"add x16, x16, :lo12:nereid_device_table\\n\" \\\n"
      "          \"ldr x16, [x16, #\" #number \"*16+8]\\nbr x16\\n\");\n"
      "#endif\n"
      "extern char nereid_device_table[] __attribute__((visibility(\"hidden\")));\n");
  unsigned number = 0;
  for (const nereid::cpu::Symbol &symbol : nereid::cpu::deviceLibrary())
    std::printf("JUMP(\"%s\", %u)\n", symbol.name, number++);
  return 0;
}
