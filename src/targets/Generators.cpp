#include "targets/disassemble.h"
#include "targets/generator.h"

#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Support/Endian.h"

const nereid::targets::Generator *nereid::targets::findGenerator(llvm::StringRef backend) {
  if (backend == "cpu")
    return &cpuGenerator();
#ifdef NEREID_WITH_NVIDIA
  if (backend == "cuda")
    return &nvidiaGenerator();
#endif
  return nullptr;
}

llvm::Expected<std::string> nereid::targets::disassemble(llvm::StringRef image) {
  if (!image.starts_with(llvm::StringRef("\x7f"
                                         "ELF")) ||
      image.size() < 64)
    return llvm::createStringError("it is neither a cubin nor an object file");
#ifdef NEREID_WITH_NVIDIA
  if (llvm::support::endian::read16le(image.data() + 18) == llvm::ELF::EM_CUDA)
    return nvidia::disassemble(image);
#endif
  return cpu::disassemble(image);
}
