import gc,sys,time
mode=sys.argv.pop(1)
gen={}
st=[0]
def cb(ph,info):
    if ph=='start': st[0]=time.thread_time()
    else:
        g=info['generation']; d=time.thread_time()-st[0]
        n,t,m=gen.get(g,(0,0,0)); gen[g]=(n+1,t+d,max(m,d))
gc.callbacks.append(cb)
if mode=='off': gc.disable()
elif mode=='big': gc.set_threshold(50_000,20,50)
elif mode=='huge': gc.set_threshold(50_000,20,10000)
from benchmarks import startup
startup.main()
print(mode,gen)
