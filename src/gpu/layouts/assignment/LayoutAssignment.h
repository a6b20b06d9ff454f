// Choosing a layout for every tensor of a kernel: IR → a layout per node and a cost, over the whole
// function. Nothing is changed until the choice is complete; ApplyLayouts.cpp then rewrites.
//
// The solver here is simple and may be replaced: candidates for every node come from the accesses,
// the dots and what follows from these through the relations; every node starts with the layout of
// the costliest neighbour, and then nodes, alone and together with the neighbours that agree with
// them, move to other candidates while the cost of the whole falls. docs/layout-assignment.md
// explains it with examples.
#pragma once
#include "gpu/layouts/assignment/LayoutProblem.h"

#include <string>

namespace nereid::gpu {

/// Layouts under which an access as `facts` describe it is coalesced, the best first: vectors along
/// the dimension with the longest runs, lanes and warps spread in several ways.
llvm::SmallVector<layout::LinearLayout, 8>
accessCandidates(llvm::ArrayRef<int64_t> shape, const AccessFacts &facts, unsigned warps);

/// Gives every node of the problem its layout; the cost in cycles.
double solveLayouts(LayoutProblem &problem);

/// What was chosen, for people: every node with its layout and what it costs, the conversions, and
/// the sum.
std::string layoutReport(LayoutProblem &problem);

/// Rewrites the function by a solved problem.
void applyLayouts(LayoutProblem &problem);

} // namespace nereid::gpu
