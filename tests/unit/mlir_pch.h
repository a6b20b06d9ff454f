// The precompiled header of unit tests with MLIR: at the tests' level of optimisation, and with
// GoogleTest.
#pragma once
#include "ir/ngpu/pch.h"

#include <random>
#include <thread>

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/IR/Verifier.h"
#include <gtest/gtest.h>
