/* settings.h: how the modules of a checkpoint are to be quantized: one setting for all, and rules
 * for those whose names match, in the words of GPTQModel's "dynamic". Must not know: tensors. */
#ifndef QUANTIZE_SETTINGS_H
#define QUANTIZE_SETTINGS_H

#include "core/base/args.h"
#include "quantize/factor.h"

#include <jansson.h>

struct module_settings {
    int bits, group; /* group -1: one for all inputs */
    int sym;
    int skip; /* it stays as it is */
};

enum { SETTINGS_RULES = ARGS_REPEATS, SETTINGS_LOW_BITS = 4 };

struct settings_rule {
    char pattern[256];
    struct module_settings to; /* bits 0, group 0, sym -1: not said */
};

struct settings {
    struct module_settings all;
    enum quant_order order;
    int search, calibrated;
    double beta, damp;
    int w4a4; /* Atom: weights of SETTINGS_LOW_BITS, the last group of 8; order rising or falling */
    double clip; /* of them: the part of a group's range that codes reach */
    int n_rules;
    struct settings_rule rule[SETTINGS_RULES];
};

/* Reads '-:regex' and '+:regex{bits=8,group=32,sym=false}'. Error: another form. */
int settings_rules(struct settings *s, const struct args_strings *rules, struct err *e);
/* "32", "64", "128", "channel". */
int settings_group(const char *text);
/* The settings of a module: the first rule that matches its name from the beginning. */
int settings_of(const struct settings *s, const char *module, struct module_settings *m,
                struct err *e);
/* The quantization_config of the result. plain: patterns of modules that stay as they are. */
json_t *settings_json(const struct settings *s, const json_t *plain);

#endif
