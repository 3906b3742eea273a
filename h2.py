import sys; sys.path.insert(0,"/work/notes/gpu")
import numpy as np, measure as m, warnings
warnings.simplefilter("ignore")
g=np.load("/work/notes/gpu/out/lanes.npz")
from fractions import Fraction
x,y,z=[b.view(np.float32) for b in m.triples("f32")]
G=g["contract|-(x*y)+z|f32"].view(np.float32)
p=x.astype(np.float64)*y.astype(np.float64)
with np.errstate(all="ignore"):
    h2=(z.astype(np.longdouble)-x.astype(np.longdouble)*y.astype(np.longdouble)).astype(np.float32)
    h1=(-(x*y)+z)
bad=np.flatnonzero(~((G==h2)|(np.isnan(G)&np.isnan(h2)))|((G==0)&(np.signbit(G)!=np.signbit(h2))))
print(len(bad))
for i in bad[:14]: print([float(v).hex() for v in (x[i],y[i],z[i])], "gpu",float(G[i]).hex(),"fused",float(h2[i]).hex(),"unf",float(h1[i]).hex())
