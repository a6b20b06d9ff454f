// The grid of a launch: numbers, or a function of the meta-parameters that gives them.
//
// A function is user code: it gets a dict of all arguments, and afterwards whatever it could have
// changed is read again. Most are like `lambda META: (cdiv(n, META["BLOCK"]), )`, which computes
// with numbers and does nothing else. That is found out from the bytecode once a function has been
// called a few times (nereid/runtime/_rules.py); what it relies on is compared at every launch.
// Such a function gets a dict of only what it reads, and nothing is read again.
#pragma once

#include "faces/python/arguments.h"

#include <algorithm>
#include <iterator>

namespace nereid::python {

/// Something that a function reads beside its argument: a global, an attribute of a module, or a
/// closure variable.
struct Guard {
  Ref container; ///< a dict, or a closure's cell where `name` is null
  Ref name;
  Ref value; ///< null: the name must not be there

  bool holds() const;
  /// Of a tuple (container, name, value) where `...` stands for null.
  static Guard of(PyObject *tuple);
};

/// A value that nothing can change and whose operators are Python's own.
inline bool isPrimitive(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  return type == &PyLong_Type || type == &PyBool_Type || type == &PyFloat_Type ||
         type == &PyUnicode_Type || object == Py_None;
}

/// The grids of one kernel's launches.
class Grids {
public:
  explicit Grids(const std::vector<Parameter> &parameters) : parameters(parameters) {}

  /// Fills `out`; false with an exception set for what is no grid. `bound`: the value of each
  /// parameter. `isHarmless`: no code ran that could have changed them.
  bool resolve(PyObject *grid, PyObject *const *bound, uint32_t out[3], bool &isHarmless) {
    if (grid != last.get())
      return resolveOther(grid, bound, out, isHarmless);
    std::copy(std::begin(lastSizes), std::end(lastSizes), out);
    return isHarmless = true;
  }
  int traverse(visitproc visit, void *arg) const;

private:
  /// What is known of functions with one code and one dict of globals.
  struct Known {
    Ref code, globals;
    unsigned calls = 0;
    bool isProven = false;
    std::vector<std::pair<size_t, bool>> reads; ///< parameters, and whether only for None
    std::vector<Guard> guards;
    std::vector<std::pair<Py_ssize_t, Ref>> cells; ///< of the closure; null: numbers and texts
  };
  bool resolveOther(PyObject *grid, PyObject *const *bound, uint32_t out[3], bool &isHarmless);
  Known *find(PyObject *function);
  bool ask(Known &known, PyObject *function) const;
  static bool holds(const Known &known, PyObject *function, PyObject *const *bound);

  Ref last; ///< the last grid that was a tuple of Python's own integers, which never changes
  uint32_t lastSizes[3] = {};
  const std::vector<Parameter> &parameters;
  std::vector<Known> functions;
};

} // namespace nereid::python
