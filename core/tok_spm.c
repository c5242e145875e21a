#include "core/tok_int.h"
int tok_spm_read(struct tokenizer *t, const struct tok_source *src, struct err *e){(void)t;(void)src;return err_set(e,"x");}
