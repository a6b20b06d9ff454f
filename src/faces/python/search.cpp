// `_native.Search`: the order of a tuner's measurements (nereid/tuner.h).
#include "faces/python/function.h"

#include "nereid/tuner.h"

#include <vector>

namespace nereid::python {
namespace {

struct SearchObject {
  PyObject_HEAD nrd_search *search;
  size_t count;
};

SearchObject *asSearch(PyObject *object) {
  return reinterpret_cast<SearchObject *>(object);
}

PyObject *searchNew(PyTypeObject *type, PyObject *args, PyObject *) {
  Py_ssize_t count = 0;
  double budget = 0;
  int plain = 0;
  if (!PyArg_ParseTuple(args, "ndp:Search", &count, &budget, &plain))
    return nullptr;
  if (count < 1)
    return PyErr_Format(PyExc_ValueError, "a search needs configurations, found %zd", count);
  PyObject *self = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (self) {
    asSearch(self)->search = nrd_search_new(size_t(count), budget, plain);
    asSearch(self)->count = size_t(count);
  }
  return self;
}

void searchDealloc(PyObject *self) {
  nrd_search_free(asSearch(self)->search);
  PyTypeObject *type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

bool configOf(PyObject *self, PyObject *object, size_t &config) {
  config = PyLong_AsSize_t(object);
  if (PyErr_Occurred())
    return false;
  if (config < asSearch(self)->count)
    return true;
  PyErr_Format(PyExc_IndexError, "there is no configuration %zu", config);
  return false;
}

PyObject *searchReady(PyObject *self, PyObject *number) {
  size_t config;
  if (!configOf(self, number, config))
    return nullptr;
  nrd_search_ready(asSearch(self)->search, config);
  Py_RETURN_NONE;
}

PyObject *searchFail(PyObject *self, PyObject *number) {
  size_t config;
  if (!configOf(self, number, config))
    return nullptr;
  nrd_search_fail(asSearch(self)->search, config);
  Py_RETURN_NONE;
}

PyObject *searchNext(PyObject *self, PyObject *) {
  static const char *steps[] = {"look", "measure", "compare", "wait", "done"};
  nrd_search_task task;
  nrd_search_next(asSearch(self)->search, &task);
  return Py_BuildValue("(sndIId)", steps[task.step], Py_ssize_t(task.config), task.milliseconds,
                       task.min_runs, task.max_runs, task.give_up);
}

PyObject *searchReport(PyObject *self, PyObject *args) {
  PyObject *number = nullptr, *list = nullptr;
  size_t config;
  if (!PyArg_ParseTuple(args, "OO:report", &number, &list) || !configOf(self, number, config))
    return nullptr;
  std::vector<double> times;
  Py_ssize_t count = PySequence_Size(list);
  for (Py_ssize_t i = 0; i < count; ++i) {
    Ref item = Ref::take(PySequence_GetItem(list, i));
    times.push_back(item ? PyFloat_AsDouble(item.get()) : 0);
    if (PyErr_Occurred())
      return nullptr;
  }
  if (count == 0)
    PyErr_SetString(PyExc_ValueError, "no times were measured");
  if (count < 1)
    return nullptr;
  nrd_search_report(asSearch(self)->search, config, times.data(), times.size());
  Py_RETURN_NONE;
}

PyObject *searchRemaining(PyObject *self, PyObject *) {
  return PyFloat_FromDouble(nrd_search_remaining(asSearch(self)->search));
}

PyObject *searchCutShort(PyObject *self, PyObject *) {
  return PyBool_FromLong(nrd_search_cut_short(asSearch(self)->search));
}

PyObject *searchBest(PyObject *self, PyObject *) {
  size_t best = nrd_search_best(asSearch(self)->search);
  if (best == asSearch(self)->count)
    Py_RETURN_NONE;
  return PyLong_FromSize_t(best);
}

PyObject *searchTiming(PyObject *self, PyObject *number) {
  size_t config;
  double times[3];
  if (!configOf(self, number, config))
    return nullptr;
  if (!nrd_search_timing(asSearch(self)->search, config, times))
    Py_RETURN_NONE;
  return Py_BuildValue("[ddd]", times[0], times[1], times[2]);
}

PyObject *searchProgress(PyObject *self, PyObject *kernel) {
  char *line = nrd_search_progress(asSearch(self)->search, textOf(kernel).c_str());
  PyObject *text = PyUnicode_FromString(line);
  nrd_string_free(line);
  return text;
}

} // namespace

bool addSearchType(PyObject *module) {
  static PyMethodDef methods[] = {
      {"ready", searchReady, METH_O, "ready(config): it can be measured from now on"},
      {"fail", searchFail, METH_O, "fail(config): it can never be measured"},
      {"next", searchNext, METH_NOARGS,
       "next(): (step, config, milliseconds, min_runs, max_runs, give_up); step is look, measure, "
       "compare, wait or done"},
      {"report", searchReport, METH_VARARGS, "report(config, times): milliseconds of each run"},
      {"remaining", searchRemaining, METH_NOARGS, "remaining(): seconds left of the budget"},
      {"cut_short", searchCutShort, METH_NOARGS,
       "cut_short(): whether the budget ended before every configuration was measured"},
      {"best", searchBest, METH_NOARGS, "best(): the fastest; None when none was measured"},
      {"timing", searchTiming, METH_O,
       "timing(config): median, 20th and 80th percentile, infinite for one that failed; None for "
       "one that was not measured"},
      {"progress", searchProgress, METH_O, "progress(kernel): one line about where it stands"},
      {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void *>(searchNew)},
                                {Py_tp_dealloc, reinterpret_cast<void *>(searchDealloc)},
                                {Py_tp_methods, methods},
                                {0, nullptr}};
  static PyType_Spec spec = {"nereid._native.Search", sizeof(SearchObject), 0, Py_TPFLAGS_DEFAULT,
                             slots};
  Ref type = Ref::take(PyType_FromSpec(&spec));
  return type && PyModule_AddType(module, reinterpret_cast<PyTypeObject *>(type.get())) == 0;
}

} // namespace nereid::python
