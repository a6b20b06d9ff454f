/** @file
 * @brief Nereid's C ABI: whether the settings are understood.
 *
 * Conventions as in nereid.h, which has what lists and changes settings.
 */
#ifndef NEREID_SETTINGS_H
#define NEREID_SETTINGS_H

#include "nereid/nereid.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Reads the environment again; an error (NRD_ERROR_ARGUMENT) that names each setting with a value
 * it does not take, and what it takes. What compiles or launches gives the same error. */
NRD_API nrd_error *nrd_check_settings(void);

#ifdef __cplusplus
}
#endif

#endif
