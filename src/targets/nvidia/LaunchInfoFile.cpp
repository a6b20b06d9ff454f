#include "targets/nvidia/LaunchInfoFile.h"

namespace nereid::nvidia {

using gpu::HostNumber;
using gpu::TensorMapPlan;

static void save(const HostNumber &number, ByteWriter &out) {
  out.list(number.steps, [&](const HostNumber::Step &step) {
    out.number(step.op);
    out.number(step.value);
  });
}

static void restore(HostNumber &number, ByteReader &in) {
  size_t depth = 0;
  in.list([&] {
    HostNumber::Step &step = number.steps.emplace_back();
    step.op = in.oneOf<HostNumber::Op>(HostNumber::Op::Shl);
    step.value = in.number<int64_t>();
    switch (step.op) {
    case HostNumber::Op::Argument:
    case HostNumber::Op::Constant:
      if (++depth > HostNumber::maxDepth)
        in.fail();
      if (step.op == HostNumber::Op::Argument && (step.value < 0 || step.value > 65535))
        in.fail();
      return;
    case HostNumber::Op::SignExtend:
    case HostNumber::Op::ZeroExtend:
      if (depth < 1 || step.value < 1 || step.value > 64)
        in.fail();
      return;
    default:
      if (depth < 2)
        in.fail();
      else
        --depth;
    }
  });
  if (depth != 1)
    in.fail();
}

void saveLaunchInfo(const LaunchInfo &info, ByteWriter &out) {
  out.text(info.entry);
  out.number(int32_t(info.arch));
  out.flag(info.archSpecific);
  out.number(int32_t(info.numWarps));
  out.number(int32_t(info.numCtas));
  out.number(int32_t(info.mostSplits));
  if (info.mostSplits > 1) {
    save(info.splitRule.extent, out);
    out.number(info.splitRule.divisor);
    out.list(info.splitRule.least, [&](int32_t least) { out.number(least); });
  }
  out.flag(info.pairs);
  out.flag(info.isPersistent);
  for (int64_t number : {info.sharedBytes, info.globalScratchBytes, info.globalScratchAlign})
    out.number(number);
  out.list(info.tensorMaps, [&](const TensorMapPlan &plan) {
    out.text(plan.name);
    out.number(plan.element);
    out.number(uint32_t(plan.elementBytes));
    out.number(uint32_t(plan.swizzleBytes));
    out.flag(plan.padsNaN);
    out.flag(plan.optional);
    save(plan.base, out);
    out.list(plan.shape, [&](const HostNumber &number) { save(number, out); });
    out.list(plan.strides, [&](const HostNumber &number) { save(number, out); });
    out.list(plan.box, [&](uint32_t size) { out.number(size); });
  });
  out.number(int32_t(info.registers));
  out.number(int32_t(info.spills));
}

void restoreLaunchInfo(LaunchInfo &info, ByteReader &in) {
  info.entry = in.text();
  info.arch = in.number<int32_t>();
  info.archSpecific = in.flag();
  info.numWarps = in.number<int32_t>();
  info.numCtas = in.number<int32_t>();
  info.mostSplits = in.number<int32_t>();
  if (info.mostSplits > 1) {
    restore(info.splitRule.extent, in);
    info.splitRule.divisor = in.number<int64_t>();
    in.list([&] { info.splitRule.least.push_back(in.number<int32_t>()); });
    if (info.splitRule.divisor < 1 || info.splitRule.mostBlocks() != unsigned(info.mostSplits))
      in.fail();
  }
  info.pairs = in.flag();
  info.isPersistent = in.flag();
  for (int64_t *number : {&info.sharedBytes, &info.globalScratchBytes, &info.globalScratchAlign})
    *number = in.number<int64_t>();
  in.list([&] {
    TensorMapPlan &plan = info.tensorMaps.emplace_back();
    plan.name = in.text();
    plan.element = in.oneOf(gpu::TensorMapElement::BFloat16);
    plan.elementBytes = in.number<uint32_t>();
    plan.swizzleBytes = in.number<uint32_t>();
    plan.padsNaN = in.flag();
    plan.optional = in.flag();
    restore(plan.base, in);
    in.list([&] { restore(plan.shape.emplace_back(), in); });
    in.list([&] { restore(plan.strides.emplace_back(), in); });
    in.list([&] { plan.box.push_back(in.number<uint32_t>()); });
  });
  info.registers = in.number<int32_t>();
  info.spills = in.number<int32_t>();
}

} // namespace nereid::nvidia
