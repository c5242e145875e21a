#include "core/step/act_format.h"

const struct act_format act_formats[] = {
    [ACT_F32] = {.name = "f32"},
    [ACT_I16] = {"i16", 2, KV_TOP_I16, 128, KV_TOP_I16, KV_TOP_I16, 0, 0},
    [ACT_INT8] = {"int8", 1, KV_TOP_INT8, 128, KV_TOP_INT8, KV_TOP_I16, 0, 0},
    [ACT_F16] = {.name = "f16"},
    [ACT_INT4] = {"int4", 1, KV_TOP_INT8, 128, KV_TOP_INT8, KV_TOP_I16, 1, 0},
    [ACT_INT8_TOKEN] = {"int8-token", 1, KV_TOP_INT8, 128, KV_TOP_INT8, KV_TOP_I16, 0, 1},
    [ACT_TYPES] = {0},
};
