// `_native.Search`: the order of a tuner's measurements; results on disk (nereid/tuner.h).
#include "faces/python/function.h"

#include "nereid/tuner.h"

#include <cmath>
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
  int plain = 0, wakes = 0;
  if (!PyArg_ParseTuple(args, "ndpp:Search", &count, &budget, &plain, &wakes))
    return nullptr;
  if (count < 1)
    return PyErr_Format(PyExc_ValueError, "a search needs configurations, found %zd", count);
  PyObject *self = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (self) {
    asSearch(self)->search = nrd_search_new(
        size_t(count), budget, (plain ? NRD_SEARCH_PLAIN : 0) | (wakes ? NRD_SEARCH_WAKES : 0));
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
  static const char *steps[] = {"look", "measure", "compare", "wake", "wait", "done"};
  nrd_search_task task;
  nrd_search_next(asSearch(self)->search, &task);
  return Py_BuildValue("(snI)", steps[task.step], Py_ssize_t(task.config), task.runs);
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

//===--- results on disk
//-------------------------------------------------------------------------===//

PyObject *tuningThreads(PyObject *, PyObject *) {
  return PyLong_FromUnsignedLong(nrd_tuning_threads());
}

PyObject *tuningFind(PyObject *, PyObject *args) {
  const char *key = nullptr;
  Py_ssize_t size = 0, configs = 0;
  int device = 0;
  double budget = 0;
  if (!PyArg_ParseTuple(args, "s#ind:tuning_find", &key, &size, &device, &configs, &budget))
    return nullptr;
  std::vector<double> times(size_t(configs) * 3);
  size_t best = 0;
  int found;
  {
    GilRelease released;
    found =
        nrd_tuning_find(key, size_t(size), device, size_t(configs), budget, &best, times.data());
  }
  if (!found)
    Py_RETURN_NONE;
  Ref list = Ref::take(PyList_New(configs));
  for (Py_ssize_t i = 0; list && i < configs; ++i) {
    const double *of = &times[size_t(i) * 3];
    PyObject *item =
        std::isnan(of[0]) ? Py_NewRef(Py_None) : Py_BuildValue("[ddd]", of[0], of[1], of[2]);
    if (!item || PyList_SetItem(list.get(), i, item) < 0)
      return nullptr;
  }
  return list ? Py_BuildValue("(nO)", Py_ssize_t(best), list.get()) : nullptr;
}

PyObject *tuningKeep(PyObject *, PyObject *args) {
  const char *key = nullptr, *kernel = nullptr;
  Py_ssize_t size = 0, best = 0;
  int device = 0;
  PyObject *list = nullptr;
  double cutShortAfter = 0;
  if (!PyArg_ParseTuple(args, "s#isnO!d:tuning_keep", &key, &size, &device, &kernel, &best,
                        &PyList_Type, &list, &cutShortAfter))
    return nullptr;
  Py_ssize_t configs = PyList_Size(list);
  std::vector<double> times;
  for (Py_ssize_t i = 0; i < configs; ++i) {
    PyObject *item = PyList_GetItem(list, i);
    for (Py_ssize_t part = 0; part < 3; ++part) {
      Ref number = item == Py_None ? Ref() : Ref::take(PySequence_GetItem(item, part));
      times.push_back(number ? PyFloat_AsDouble(number.get()) : std::nan(""));
      if (PyErr_Occurred())
        return nullptr;
    }
  }
  if (best < 0 || best >= configs)
    return PyErr_Format(PyExc_IndexError, "there is no configuration %zd", best);
  {
    GilRelease released;
    nrd_tuning_keep(key, size_t(size), device, kernel, size_t(configs), size_t(best), times.data(),
                    cutShortAfter);
  }
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"tuning_threads", tuningThreads, METH_NOARGS,
     "tuning_threads(): how many threads compile configurations ahead"},
    {"tuning_find", tuningFind, METH_VARARGS,
     "tuning_find(key, device, configs, budget): (best, times of each or None) of an earlier "
     "tuning; None when there is no result on disk"},
    {"tuning_keep", tuningKeep, METH_VARARGS,
     "tuning_keep(key, device, kernel, best, times, cut_short_after): keeps a result on disk"},
    {nullptr, nullptr, 0, nullptr}};

} // namespace

bool addTuning(PyObject *module) {
  static PyMethodDef methods[] = {
      {"ready", searchReady, METH_O, "ready(config): it can be measured from now on"},
      {"fail", searchFail, METH_O, "fail(config): it can never be measured"},
      {"next", searchNext, METH_NOARGS,
       "next(): (step, config, runs); step is look, measure, compare, wake, wait or done"},
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
  return type && PyModule_AddType(module, reinterpret_cast<PyTypeObject *>(type.get())) == 0 &&
         PyModule_AddFunctions(module, functions) == 0;
}

} // namespace nereid::python
