#include "Kernels.h"

#include "targets/nvidia/codegen/Libdevice.h"
#include "targets/nvidia/codegen/Toolkit.h"

#include "Environment.h"

#include "llvm/Pass.h"
#include "llvm/Transforms/Scalar.h"
#include "llvm/Transforms/Scalar/GVN.h"

using namespace nereid::nvidia;

namespace {

bool contains(const std::string &text, llvm::StringRef part) {
  return llvm::StringRef(text).contains(part);
}

TEST(Ptx, VectorAdd) {
  std::string ptx = ptxOf(addKernel, hopper());
  EXPECT_TRUE(contains(ptx, ".version 8.0\n.target sm_90a\n.address_size 64")) << ptx;
  EXPECT_TRUE(contains(ptx, ".visible .entry add(")) << ptx;
  EXPECT_TRUE(contains(ptx, ".param .u64 .ptr .global .align 16 add_param_0")) << ptx;
  EXPECT_TRUE(contains(ptx, ".reqntid 128")) << ptx;
  EXPECT_FALSE(contains(ptx, ".maxnreg")) << ptx;
  EXPECT_FALSE(contains(ptx, "ftz")) << ptx;
  EXPECT_TRUE(contains(ptx, "fma.rn.f32")) << ptx;
}

TEST(Ptx, VersionAndArchitecture) {
  CodegenOptions options = hopper(87);
  EXPECT_TRUE(contains(ptxOf(addKernel, options), ".version 8.7\n.target sm_90a"));
  options.arch = {80, false};
  options.ptxVersion = 70;
  EXPECT_TRUE(contains(ptxOf(addKernel, options), ".version 7.0\n.target sm_80\n"));
  options.arch = {120, true};
  options.ptxVersion = 87;
  EXPECT_TRUE(contains(ptxOf(addKernel, options), ".version 8.7\n.target sm_120a\n"));
}

TEST(Ptx, FusionCanBeTurnedOff) {
  CodegenOptions options = hopper();
  options.fpFusion = false;
  std::string ptx = ptxOf(addKernel, options);
  EXPECT_FALSE(contains(ptx, "fma.rn")) << ptx;
  // Marked, so that the assembler does not fuse either.
  EXPECT_TRUE(contains(ptx, "mul.rn.f32")) << ptx;
  EXPECT_TRUE(contains(ptx, "add.rn.f32")) << ptx;
}

TEST(Ptx, Shape) {
  KernelShape shape;
  shape.threads = 256;
  shape.maxRegisters = 168;
  shape.minBlocks = 1;
  std::string ptx = ptxOf(addKernel, hopper(), shape);
  EXPECT_TRUE(contains(ptx, ".reqntid 256")) << ptx;
  EXPECT_TRUE(contains(ptx, ".maxnreg 168")) << ptx;
  EXPECT_TRUE(contains(ptx, ".minnctapersm 1")) << ptx;
}

TEST(Ptx, DroppedPassesHaveTheseNames) {
  std::unique_ptr<llvm::Pass> strength(llvm::createStraightLineStrengthReducePass());
  std::unique_ptr<llvm::Pass> reassociation(llvm::createNaryReassociatePass());
  std::unique_ptr<llvm::Pass> numbering(llvm::createGVNPass());
  EXPECT_EQ(strength->getPassName(), droppedPasses[0]);
  EXPECT_EQ(reassociation->getPassName(), droppedPasses[1]);
  EXPECT_EQ(numbering->getPassName(), droppedPasses[2]);
}

TEST(Ptx, SameInputSameText) {
  EXPECT_EQ(ptxOf(addKernel, hopper()), ptxOf(addKernel, hopper()));
  EXPECT_EQ(ptxOf(wgmmaKernel(), hopper()), ptxOf(wgmmaKernel(), hopper()));
}

const char *const sineKernel = R"(
define void @sine(ptr addrspace(1) %p) {
  %x = load float, ptr addrspace(1) %p
  %y = call float @__nv_sinf(float %x)
  %z = call float @__nv_expf(float %y)
  store float %z, ptr addrspace(1) %p
  ret void
}
declare float @__nv_sinf(float)
declare float @__nv_expf(float)
)";

TEST(Libdevice, LinksWhatIsCalled) {
  if (findLibdevice().empty())
    GTEST_SKIP() << "no libdevice";
  std::string texts[2];
  for (bool flush : {false, true}) {
    Compiled compiled;
    parse(compiled, sineKernel, hopper());
    ASSERT_TRUE(needsLibdevice(*compiled.module));
    llvm::Error error = linkLibdevice(*compiled.module, {90, true}, flush);
    ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
    EXPECT_FALSE(needsLibdevice(*compiled.module));
    optimize(*compiled.module, *compiled.machine);
    auto ptx = emitPtx(*compiled.module, *compiled.machine);
    ASSERT_TRUE(bool(ptx));
    texts[flush] = *ptx;
    EXPECT_FALSE(contains(*ptx, "__nv_")) << *ptx;
    EXPECT_FALSE(contains(*ptx, "__nvvm_reflect"));
    EXPECT_FALSE(contains(*ptx, "call"));
  }
  EXPECT_FALSE(contains(texts[0], "fma.rn.ftz"));
  EXPECT_TRUE(contains(texts[1], "fma.rn.ftz"));
}

TEST(Libdevice, UnknownFunction) {
  if (findLibdevice().empty())
    GTEST_SKIP() << "no libdevice";
  Compiled compiled;
  parse(compiled, "declare float @__nv_sinff(float)", hopper());
  EXPECT_EQ(llvm::toString(linkLibdevice(*compiled.module, {90, true}, false)),
            "libdevice has no function `__nv_sinff`");
}

TEST(Libdevice, FileThatIsNone) {
  Environment environment({{"NEREID_LIBDEVICE", "/no/such/libdevice.10.bc"}});
  Compiled compiled;
  parse(compiled, sineKernel, hopper());
  EXPECT_EQ(llvm::toString(linkLibdevice(*compiled.module, {90, true}, false)),
            "cannot read `/no/such/libdevice.10.bc`: No such file or directory");
}

} // namespace
