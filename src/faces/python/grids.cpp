#include "faces/python/grids.h"

#include <algorithm>

namespace nereid::python {

bool Guard::holds() const {
  if (name)
    return PyDict_GetItemWithError(container.get(), name.get()) == value.get();
  Ref contents = attribute(container.get(), "cell_contents");
  PyErr_Clear();
  return contents.get() == value.get();
}

Guard Guard::of(PyObject *tuple) {
  auto part = [&](Py_ssize_t at) {
    PyObject *object = PyTuple_GetItem(tuple, at);
    return object == Py_Ellipsis ? Ref() : Ref::share(object);
  };
  return {part(0), part(1), part(2)};
}

int Grids::traverse(visitproc visit, void *arg) const {
  for (const Known &known : functions) {
    Py_VISIT(known.code.get());
    Py_VISIT(known.globals.get());
    for (const Guard &guard : known.guards) {
      Py_VISIT(guard.container.get());
      Py_VISIT(guard.value.get());
    }
    for (const auto &[index, value] : known.cells)
      Py_VISIT(value.get());
  }
  return 0;
}

namespace {

/// How often a function is called before it is looked at: looking loads a module.
constexpr unsigned callsBefore = 16;
/// Programs that make new code for each launch gain nothing from this.
constexpr size_t mostFunctions = 16;

Ref get(PyObject *object, PyObject *name) {
  return Ref::take(PyObject_GetAttr(object, name));
}

/// Python's class of functions.
PyTypeObject *functionType() {
  static PyTypeObject *const type = [] {
    Ref types = Ref::take(PyImport_ImportModule("types"));
    Ref cls = types ? attribute(types.get(), "FunctionType") : Ref();
    PyErr_Clear();
    return reinterpret_cast<PyTypeObject *>(cls.release());
  }();
  return type;
}

/// The sizes of a grid as a tuple: of a tuple, a list, an array or another sequence, or one number.
/// Null, perhaps with an exception set, for anything else.
Ref itemsOf(PyObject *grid) {
  if (PyTuple_Check(grid))
    return Ref::share(grid);
  if (PyIndex_Check(grid)) { // arrays and tensors have it, too, and refuse unless they are a number
    if (Ref number = Ref::take(PyNumber_Index(grid)))
      return Ref::take(PyTuple_Pack(1, number.get()));
    PyErr_Clear();
  }
  bool isOther = PyUnicode_Check(grid) || PyBytes_Check(grid) || PyDict_Check(grid);
  bool hasItems = PySequence_Check(grid) || PyMapping_Check(grid); // tensors are the latter
  return isOther || !hasItems ? Ref() : Ref::take(PySequence_Tuple(grid));
}

/// Whether sizes beyond the third are 1, as libraries that count four dimensions give them. In
/// strict mode they may be anything: Triton does not look at them.
bool isRestOne(PyObject *items, PyObject *grid) {
  for (Py_ssize_t i = 3; i < PyTuple_Size(items); ++i) {
    Ref index = Ref::take(PyNumber_Index(PyTuple_GetItem(items, i)));
    bool isOne = index && PyLong_AsLongLong(index.get()) == 1;
    PyErr_Clear();
    if (isOne)
      continue;
    Ref knobs = Ref::take(PyImport_ImportModule("nereid.knobs"));
    Ref ours = knobs ? attribute(knobs.get(), "nereid") : Ref();
    Ref strict = ours ? attribute(ours.get(), "strict") : Ref();
    PyErr_Clear();
    if (strict && PyObject_IsTrue(strict.get()) == 1)
      return true;
    PyErr_Format(
        PyExc_ValueError,
        "a grid has three dimensions: expected 1 for every size after the third, found %S in "
        "dimension %zd of %R",
        PyTuple_GetItem(items, i), i, grid);
    return false;
  }
  return true;
}

} // namespace

Grids::Known *Grids::find(PyObject *function) {
  static PyObject *const codeName = interned("__code__");
  static PyObject *const globalsName = interned("__globals__");
  if (Py_TYPE(function) != functionType())
    return nullptr;
  Ref code = get(function, codeName), globals = get(function, globalsName);
  if (!code || !globals) {
    PyErr_Clear();
    return nullptr;
  }
  for (Known &known : functions)
    if (known.code.get() == code.get() && known.globals.get() == globals.get())
      return &known;
  if (functions.size() == mostFunctions)
    functions.clear();
  Known &known = functions.emplace_back();
  known.code = std::move(code);
  known.globals = std::move(globals);
  return &known;
}

bool Grids::ask(Known &known, PyObject *function) const {
  Ref module = Ref::take(PyImport_ImportModule("nereid.runtime._rules"));
  Ref found =
      Ref::take(module ? PyObject_CallMethod(module.get(), "grid_reads", "O", function) : nullptr);
  if (!found || !PyTuple_Check(found.get()))
    return false;
  PyObject *names = PyTuple_GetItem(found.get(), 0), *guards = PyTuple_GetItem(found.get(), 1),
           *cells = PyTuple_GetItem(found.get(), 2);
  for (Py_ssize_t i = 0; i < PyTuple_Size(names); ++i) { // (name, only compared with None)
    PyObject *name = PyTuple_GetItem(PyTuple_GetItem(names, i), 0);
    auto parameter = std::find_if(parameters.begin(), parameters.end(), [&](const Parameter &each) {
      return PyUnicode_Compare(each.name, name) == 0;
    });
    if (parameter == parameters.end())
      return false;
    known.reads.push_back({size_t(parameter - parameters.begin()),
                           PyTuple_GetItem(PyTuple_GetItem(names, i), 1) == Py_True});
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(guards); ++i)
    known.guards.push_back(Guard::of(PyTuple_GetItem(guards, i)));
  for (Py_ssize_t i = 0; i < PyTuple_Size(cells); ++i) { // (number of the cell, object or ...)
    PyObject *value = PyTuple_GetItem(PyTuple_GetItem(cells, i), 1);
    known.cells.push_back({PyLong_AsSsize_t(PyTuple_GetItem(PyTuple_GetItem(cells, i), 0)),
                           value == Py_Ellipsis ? Ref() : Ref::share(value)});
  }
  return true;
}

bool Grids::holds(const Known &known, PyObject *function, PyObject *const *bound) {
  static PyObject *const closureName = interned("__closure__");
  static PyObject *const contentsName = interned("cell_contents");
  for (auto [parameter, isForNone] : known.reads)
    if (!isForNone && !isPrimitive(bound[parameter]))
      return false;
  for (const Guard &guard : known.guards)
    if (!guard.holds())
      return false;
  if (known.cells.empty())
    return true;
  Ref closure = get(function, closureName);
  for (const auto &[index, value] : known.cells) {
    PyObject *cell = closure ? PyTuple_GetItem(closure.get(), index) : nullptr;
    Ref contents = cell ? get(cell, contentsName) : Ref();
    if (!contents || (value ? contents.get() != value.get() : !isPrimitive(contents.get())))
      return false;
  }
  return true;
}

bool Grids::resolveOther(PyObject *grid, PyObject *const *bound, uint32_t out[3],
                         bool &isHarmless) {
  Ref computed;
  isHarmless = true;
  bool isFixed = Py_TYPE(grid) == &PyTuple_Type;
  out[0] = out[1] = out[2] = 1;
  if (!PyTuple_Check(grid) && PyCallable_Check(grid)) {
    Known *known = find(grid);
    bool isCounted = known && known->calls <= callsBefore;
    if (isCounted)
      ++known->calls;
    if (isCounted && known->calls > callsBefore) {
      Known answer;
      answer.isProven = ask(answer, grid);
      answer.calls = callsBefore + 1;
      PyErr_Clear();
      known = find(grid); // Python ran: the list may be another one
      if (known) {
        answer.code = std::move(known->code);
        answer.globals = std::move(known->globals);
        *known = std::move(answer);
      }
    }
    isHarmless = known && known->isProven && holds(*known, grid, bound);
    PyErr_Clear();
    Ref meta = Ref::take(PyDict_New());
    if (isHarmless)
      for (auto [parameter, isForNone] : known->reads)
        PyDict_SetItem(meta.get(), parameters[parameter].name, bound[parameter]);
    else
      for (size_t i = 0; i < parameters.size(); ++i)
        PyDict_SetItem(meta.get(), parameters[i].name, bound[i]);
    computed = Ref::take(PyObject_CallFunctionObjArgs(grid, meta.get(), nullptr));
    if (!computed)
      return false;
    grid = computed.get();
  }
  Ref items = itemsOf(grid);
  Py_ssize_t rank = items ? PyTuple_Size(items.get()) : 0;
  if (rank < 1) {
    bool isOther = !items;
    PyErr_Clear();
    PyErr_Format(isOther ? PyExc_TypeError : PyExc_ValueError,
                 "the grid must be one to three integers, or a function of the meta-parameters "
                 "that returns them, found %R",
                 grid);
    return false;
  }
  if (rank > 3) {
    if (!isRestOne(items.get(), grid))
      return false;
    isFixed = false; // each launch looks at the rest
    rank = 3;
  }
  for (Py_ssize_t i = 0; i < rank; ++i) {
    PyObject *item = PyTuple_GetItem(items.get(), i);
    Ref index;
    if (Py_TYPE(item) != &PyLong_Type) {
      isFixed = false;
      index = Ref::take(PyNumber_Index(item));
      if (!index) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError,
                     "the grid must be made of integers, found %R in dimension %zd", item, i);
        return false;
      }
      item = index.get();
    }
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(item, &overflow);
    if (overflow || value < 0 || value > INT32_MAX) {
      bool negative = overflow < 0 || (!overflow && value < 0);
      PyErr_Format(PyExc_ValueError, "the grid must not be %s, found %S in dimension %zd",
                   negative ? "negative" : "larger than 2147483647", item, i);
      return false;
    }
    out[i] = uint32_t(value);
  }
  if (isFixed) {
    last = Ref::share(grid);
    std::copy_n(out, 3, lastSizes);
  }
  return true;
}

} // namespace nereid::python
