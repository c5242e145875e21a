/* no_loader.c: stand-ins for libc's dynamic loader in a static program (make static), which has no
 * use for the libraries that the loader needs. */
#include <dlfcn.h>
#include <stddef.h>

void *dlopen(const char *path, int flags)
{
    (void)path, (void)flags;
    return NULL;
}

void *dlsym(void *restrict handle, const char *restrict name)
{
    (void)handle, (void)name;
    return NULL;
}

char *dlerror(void)
{
    return (char *)(size_t)"this program is static: it cannot load a GPU's runtime library";
}
